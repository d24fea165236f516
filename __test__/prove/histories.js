// Small handwritten histories for the tests of the checks.

import { PROMISES } from "../../prove/check/promises.mjs";
import { model } from "../../prove/check/model.mjs";

export const RUN = {
  e: "run",
  backend: "redis",
  seed: "1",
  seconds: 1,
  processes: 2,
  workers: 1,
  ttlMs: 1_000,
  toleranceMs: 0,
  keys: ["k"],
  undoPrefix: "undone:",
  timeoutMs: 6_000,
  longestPauseMs: 3_000,
  operationMs: 3_000,
  notes: [],
};

/** `fence` as a number. */
export const fence = (number) => String(number).padStart(15, "0");

/**
 * The events of one turn of a worker of process `p`: asked at `asked`, in the function from `from` to
 * `to`, all the time sure that it held the lock. With a `limit` it shares the key, in its `slot`.
 */
export function turn(s, { p = "0.1", k = "k", f, from, to, asked = from, ended = to, ...more }) {
  const { held = true, believedTo = to, kept = true, auto = false, limit, slot } = more;
  return [
    { e: "ask", t: asked, p, s, k, limit, form: "lock", auto, observed: false },
    { e: "in", t: from, p, s, f: fence(f), slot, held },
    { e: "out", t: to, p, s, to: believedTo, kept },
    { e: "end", t: ended, p, s },
  ];
}

/** A process from its begin to its end. */
export const life = (w, { code = 0, signal = null, to = 10_000, said = "" } = {}) => [
  { e: "spawn", t: 0, w },
  { e: "exit", t: to, w, code, signal, said },
];

/** An update of one cell, of a section that turned with it. */
export const write = (t, s, parent, { k = "k", cell = "fenced", refused = [] } = {}) => [
  { e: "write", t, s, k, cells: { [cell]: parent }, refused },
];

export const failover = (from, to) => [
  { e: "fault", t: to, kind: "failover", lane: "store", from, to, mayLoseWrites: true },
];

export const history = (...events) => model([RUN, ...events.flat()]);

/** What one check finds. */
export function find(name, ...events) {
  const { violations, excused } = PROMISES[name](history(...events));
  return { violations: violations.length, excused: excused.length };
}
