// Values of every kind that JavaScript can pass, including hostile ones.
//
// Each value is in a box, because fast-check inspects the values it generates, and some throw if inspected.

import fc from "fast-check";
import { inspect } from "node:util";

export class Box {
  #value;
  constructor(value) {
    this.#value = value;
  }
  open() {
    return this.#value;
  }
  [fc.toStringMethod]() {
    try {
      return inspect(this.#value, { depth: 3 });
    } catch {
      return "a hostile object";
    }
  }
}

const boom = () => {
  throw new Error("hostile");
};

function revoked() {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

/** Objects whose every use throws, or that pretend to be something else. */
const HOSTILE = [
  new Proxy({}, { get: boom, has: boom, ownKeys: boom, getPrototypeOf: boom }),
  new Proxy(() => {}, { get: boom, apply: boom }),
  revoked(),
  Object.defineProperties({}, { key: { get: boom }, lockId: { get: boom }, ttlMs: { get: boom } }),
  { toString: boom, valueOf: boom, [Symbol.toPrimitive]: boom },
  { toString: () => "key", valueOf: () => 1000 },
  { aborted: false },
  { aborted: true, addEventListener: null },
  { aborted: false, addEventListener: boom, removeEventListener: boom },
  Object.create(null),
  Object.freeze([]),
  new Proxy([], {}),
];

const ODD = [
  ...[undefined, null, true, false, NaN, Infinity, -Infinity, -0, 0, 1, 1.5, -1],
  ...[2 ** 31, 2 ** 32, 2 ** 53 - 1, 2 ** 53, 2 ** 64, Number.MAX_VALUE, Number.MIN_VALUE],
  ...[0n, 1n, 10n ** 30n, "", "\0", "\ud800", "__proto__", "1000", Symbol("s"), Symbol.iterator],
  ...[() => {}, async () => {}, class {}, new Date(NaN), /x/, new Error("e"), Promise.resolve(1)],
  ...[new Map(), new Set(), new WeakMap(), new ArrayBuffer(8), new Uint8Array(22), globalThis],
  ...[new String("key"), new Number(1000), new AbortController(), AbortSignal.abort()],
];

const boxed = (arbitrary) => arbitrary.map((value) => new Box(value));
const BOXES = [...HOSTILE, ...ODD].map((value) => new Box(value));

/** A box with any value. */
export const anything = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom(...BOXES) },
  { weight: 2, arbitrary: boxed(fc.string({ unit: "binary" })) },
  { weight: 1, arbitrary: boxed(fc.double()) },
  { weight: 1, arbitrary: boxed(fc.integer()) },
  {
    weight: 2,
    arbitrary: boxed(
      fc.anything({
        withBigInt: true,
        withBoxedValues: true,
        withDate: true,
        withMap: true,
        withNullPrototype: true,
        withObjectString: true,
        withSet: true,
        withSparseArray: true,
        withTypedArray: true,
      }),
    ),
  },
);

/** A box with an object that has some of these fields, each of any value or of the good one. */
export const fields = (good) => {
  const field = (value) =>
    fc.oneof(
      { weight: 1, arbitrary: anything },
      { weight: 2, arbitrary: fc.constant(new Box(value)) },
    );
  const record = Object.fromEntries(
    Object.entries(good).map(([name, value]) => [name, field(value)]),
  );
  return fc
    .record(record, { requiredKeys: [] })
    .map(
      (boxes) =>
        new Box(Object.fromEntries(Object.entries(boxes).map(([name, box]) => [name, box.open()]))),
    );
};
