// One process of a test of sharing: it holds locks on request, or runs work under locks and records it.

import { setTimeout as sleep } from "node:timers/promises";
import { hold, lock, tryHold, withTelemetry } from "../fixtures/api.js";
import { now, serve } from "../handover/process.js";

const { module, config: opening } = JSON.parse(process.argv[2]);
const { open } = await import(module);
const backend = await open(opening);

/** The attempts of all waits. */
let attempts = 0;
const observed = withTelemetry(backend, {
  onEvent: ({ type, attempts: made = 0 }) => {
    if (type === "acquire") attempts += made;
  },
});

const held = new Map();
const taking = new Map();
let working = [];
let records = [];
let isStopping = false;

/** What is recorded of a lock, one key or several alike. */
function locksOf({ fence, slot, fences, slots }, { key, keys = [key] }) {
  return keys.map((key) => ({ key, fence: fences?.[key] ?? fence, slot: slots?.[key] ?? slot }));
}

/** Returns some of the keys, in any order. */
function someOf(keys) {
  const chosen = keys.filter(() => Math.random() < 0.5);
  if (chosen.length === 0) return [keys[Math.floor(Math.random() * keys.length)]];
  return chosen.sort(() => Math.random() - 0.5);
}

async function lane({ rounds, workMs, someKeysOf, ...given }) {
  for (let round = 0; round < rounds && !isStopping; round += 1) {
    const config = someKeysOf === undefined ? given : { ...given, keys: someOf(someKeysOf) };
    const { concurrency, mode } = config;
    const askedAt = now();
    try {
      await lock(
        observed,
        async (context) => {
          const record = { askedAt, enteredAt: now(), concurrency, mode };
          await sleep(workMs);
          const locks = locksOf(context, config);
          records.push({ ...record, locks, leftAt: now() });
        },
        config,
      );
    } catch (error) {
      records.push({ askedAt, failed: error.code ?? String(error.stack) });
      return;
    }
  }
}

serve({
  /** Holds a lock until `release`, and returns what it is known by. Undefined if `waits` is false and it is busy. */
  async take({ name, waits = true, ...config }) {
    const controller = new AbortController();
    taking.set(name, controller);
    const given = { ...config, signal: controller.signal };
    const handle = await (waits ? hold : tryHold)(backend, given);
    taking.delete(name);
    if (handle === null) return undefined;
    held.set(name, handle);
    const { lockId, fence, slot } = handle;
    return { takenAt: now(), takenAtMs: Date.now(), lockId, fence, slot };
  },

  /** Ends the wait of a `take`. */
  abort: ({ name }) => taking.get(name).abort(),

  async release({ name }) {
    await held.get(name).release();
    held.delete(name);
  },

  isHeld: ({ name }) => held.get(name).isHeld(),

  /** Begins to work, in so many lanes at once. Each runs so many rounds, or until `finish`. */
  begin({ lanes, rounds = Infinity, workMs, ...config }) {
    isStopping = false;
    attempts = 0;
    records = [];
    working = Array.from({ length: lanes }, () => lane({ rounds, workMs, ...config }));
  },

  /** How many rounds are done. */
  done: () => records.length,

  /** Resolves when the work is done. With `stops` at the end of the rounds that have begun. */
  async finish({ stops = false } = {}) {
    isStopping = stops;
    await Promise.all(working);
    return { records, attempts };
  },

  /** Ends what the test has left, so that another test can use this process. */
  async reset() {
    isStopping = true;
    for (const controller of taking.values()) controller.abort();
    taking.clear();
    await Promise.all(working);
    await Promise.allSettled([...held.values()].map((handle) => handle.release()));
    held.clear();
  },

  close: () => backend.close(),
});
