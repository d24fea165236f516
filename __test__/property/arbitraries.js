// Values of every kind that JavaScript can pass, hostile ones included.

import fc from "fast-check";

const boom = () => {
  throw new Error("hostile");
};

/** Objects whose every use throws, or that pretend to be something else. */
const hostile = fc.constantFrom(
  new Proxy({}, { get: boom, has: boom, ownKeys: boom, getPrototypeOf: boom }),
  new Proxy(() => {}, { get: boom, apply: boom }),
  { get key() { return boom(); }, get lockId() { return boom(); }, get ttlMs() { return boom(); } },
  { toString: boom, valueOf: boom, [Symbol.toPrimitive]: boom },
  { toString: () => "key", valueOf: () => 1000 },
  { aborted: false },
  { aborted: true, addEventListener: null },
  Object.create(null),
  Object.freeze([]),
  new Proxy([], {}),
  (() => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    return proxy;
  })(),
);

const odd = fc.constantFrom(
  undefined, null, true, false, NaN, Infinity, -Infinity, -0, 0, 1, 1.5, -1,
  2 ** 31, 2 ** 32, 2 ** 53 - 1, 2 ** 53, 2 ** 64, Number.MAX_VALUE, Number.MIN_VALUE,
  0n, 1n, 10n ** 30n, "", "\0", "\ud800", "__proto__", "1000", Symbol("s"), Symbol.iterator,
  () => {}, async () => {}, class {}, new Date(NaN), /x/, new Error("e"), Promise.resolve(1),
  new Map(), new Set(), new WeakMap(), new ArrayBuffer(8), new Uint8Array(22), globalThis,
  new String("key"), new Number(1000), new AbortController(), AbortSignal.abort(),
);

export const anything = fc.oneof(
  { weight: 3, arbitrary: odd },
  { weight: 2, arbitrary: hostile },
  { weight: 2, arbitrary: fc.string({ unit: "binary" }) },
  { weight: 1, arbitrary: fc.double() },
  { weight: 1, arbitrary: fc.integer() },
  {
    weight: 2,
    arbitrary: fc.anything({
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
  },
);

/** An object with some of these fields, each of any value or of a good one. */
export const fields = (good) =>
  fc.record(
    Object.fromEntries(
      Object.entries(good).map(([name, value]) => [
        name,
        fc.oneof({ weight: 2, arbitrary: anything }, { weight: 1, arbitrary: fc.constant(value) }),
      ]),
    ),
    { requiredKeys: [] },
  );
