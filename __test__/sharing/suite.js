// Sharing a key, and several keys, between processes: what holds on every backend. Each backend has a test
// file that calls `sharing(name, spec)`.

import { afterEach, describe } from "vitest";
import { isLong, size } from "../fixtures/size.js";
import { setup } from "../handover/setup.js";
import { deaths } from "./deaths.js";
import { holders } from "./holders.js";
import { sets } from "./sets.js";
import { waking } from "./waking.js";
import { writers } from "./writers.js";

const WORKER = new URL("./worker.js", import.meta.url);
const OPERATIONS = ["take", "release", "abort", "isHeld", "begin", "done", "finish"];

/** The parts that are worth repeating at full size. */
const SIZED = [holders, sets, deaths];
const ALL = [holders, writers, waking, deaths, sets];

/**
 * @param {string} name
 * @param {object} spec as for the hand-over between processes: see its setup.js
 * @param {number} [spec.rounds] of work in each lane of a process
 * @param {number} [spec.readers] how many read in a loop while a writer waits
 * @param {((t: object) => Promise<string[]>)} [spec.sixKeys] the keys of random sets
 */
export function sharing(name, { readers = 100, rounds = size(12, 150), sixKeys, ...spec }) {
  describe(`sharing between processes on ${name}`, () => {
    const t = setup({ ...spec, rounds, worker: WORKER, operations: OPERATIONS });
    Object.assign(t, { readers, sixKeys });
    afterEach(() => t.recycle());
    for (const part of isLong ? SIZED : ALL) part(t);
  });
}
