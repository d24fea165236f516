// Runs the proof once: starts a store, the register and the workers, injects the faults of the seed,
// and returns where the record is.

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { listLocks } from "../js/common.js";
import { guardGroup, unguardGroup } from "../scripts/lib/keeper.mjs";
import { openBackend } from "./backends.mjs";
import { PAUSE_TTLS, processFaults, storeFaults } from "./faults.mjs";
import { now, Recorder } from "./history.mjs";
import { fakeTime, Place } from "./processes.mjs";
import { startProxy } from "./proxy.mjs";
import { schedule } from "./schedule.mjs";
import { STORES } from "./stores.mjs";

const UNDO_TTL_MS = 300_000;
const UNDO_PREFIX = "undone:";
const LOOK_EVERY_MS = 150;

/** How many holders a semaphore has. */
const LIMITS = [2, 3, 5];

const range = (count) => Array.from({ length: count }, (_, index) => index);

/**
 * @param {object} options
 * @param {keyof typeof STORES} options.backend
 * @param {string} options.seed
 * @param {number} options.seconds
 * @param {string} options.folder for the record
 */
export async function run({ backend, seed, seconds, folder, ...size }) {
  mkdirSync(folder, { recursive: true });
  const recorder = new Recorder(folder, "conductor");
  const tell = (e, fields) => recorder.tell(e, fields);
  const stops = [];
  try {
    const store = await STORES[backend]();
    stops.push(() => store.stop());
    const { processes, workers } = { processes: 4, workers: 24, ...size, ...store.size };
    const register = fork(new URL("./register.mjs", import.meta.url), [folder], { detached: true });
    guardGroup(register.pid);
    stops.push(() => {
      register.kill("SIGKILL");
      unguardGroup(register.pid);
    });
    const [registerPort] = await once(register, "message");

    const { ttlMs, toleranceMs } = store;
    const shared = sharedKeys(await canShare(store));
    const job = {
      folder,
      seed,
      registerPort,
      keys: range(12).map((index) => `key-${index}`),
      ...shared,
      workers,
      ttlMs,
      undoTtlMs: UNDO_TTL_MS,
      undoPrefix: UNDO_PREFIX,
      timeoutMs: 6_000,
      pauses: { everyMs: [500, 2_500], ttls: PAUSE_TTLS },
    };
    const keys = [...job.keys, ...shared.semaphores.map(({ key }) => key), ...shared.books];
    const { connectTimeoutMs = 0, operationTimeoutMs = 0 } = store.backend(0).options ?? {};
    tell("run", {
      ...{ backend, seed, seconds, processes, workers, ttlMs, toleranceMs },
      ...{ keys, undoPrefix: UNDO_PREFIX, timeoutMs: job.timeoutMs },
      longestPauseMs: PAUSE_TTLS[1] * ttlMs,
      operationMs: connectTimeoutMs + operationTimeoutMs,
      notes: notesOf(store),
    });

    const proxies = store.port
      ? await Promise.all(range(processes).map(() => startProxy(store.port)))
      : [];
    stops.push(() => proxies.forEach((proxy) => proxy.stop()));
    const canStep = Boolean(store.clockStepMs && fakeTime());
    const places = range(processes).map((index) => {
      const way = { ...job, backend: store.backend(proxies[index]?.port) };
      return new Place(index, way, { tell, clock: canStep && index === 0 });
    });
    stops.push(() => places.forEach((place) => place.destroy()));
    await Promise.all(places.map((place) => place.start()));

    const ending = new AbortController();
    stops.push(() => ending.abort());
    const looking = store.isBroken ? undefined : look(store, keys, { tell, signal: ending.signal });
    const endMs = seconds * 1000;
    const lanes = [
      ...places.map((place, index) => ({
        name: `process ${index}`,
        faults: processFaults(place, store, canStep && index === 0),
        gapMs: [500, 3_000],
      })),
      {
        name: "store",
        faults: storeFaults(store, proxies, ttlMs),
        gapMs: store.gapMs ?? [500, 3_000],
      },
    ];
    const begunAt = now();
    await Promise.all([
      ...lanes.map((lane) => inflict(lane, { seed, begunAt, endMs, tell })),
      sleep(endMs),
    ]);

    for (const proxy of proxies) proxy.heal();
    await Promise.all(places.map((place) => place.revive()));
    await sleep(2_000); // Without faults, so that everybody reconnects.
    await Promise.all(places.map((place) => place.end()));
    tell("ended");
    await sleep(ttlMs + toleranceMs);
    ending.abort();
    await looking;
    return folder;
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

/** Keys that holders share: semaphores, and books with readers and writers. */
function sharedKeys(canShare) {
  if (!canShare) return { semaphores: [], books: [] };
  return {
    semaphores: LIMITS.map((limit) => ({ key: `semaphore-${limit}`, limit })),
    books: range(2).map((index) => `book-${index}`),
  };
}

async function canShare(store) {
  const backend = await openBackend(store.backend(store.port));
  const { supportsSharing = false } = backend.capabilities;
  await backend.close();
  return supportsSharing;
}

function notesOf({ notes = [], clockStepMs }) {
  return clockStepMs && !fakeTime()
    ? [...notes, "Clocks were not set: libfaketime is not installed."]
    : notes;
}

async function inflict({ name, faults, gapMs }, { seed, begunAt, endMs, tell }) {
  const lengths = Object.fromEntries(Object.entries(faults).map(([kind, { ms }]) => [kind, ms]));
  for (const { at, kind, ms, choices } of schedule(`${seed} ${name}`, lengths, { endMs, gapMs })) {
    await sleep(Math.max(0, begunAt + at - now()));
    if (now() - begunAt > endMs) return;
    const from = now();
    const { act, kind: told = kind, effects } = faults[kind];
    const more = await act(ms, choices);
    tell("fault", { kind: told, lane: name, from, to: now(), ...effects, ...more });
  }
}

/** Records which fence holds each key, as seen by a client of the store that takes no locks. */
async function look(store, keys, { tell, signal }) {
  const backend = await openBackend(store.backend(store.port));
  const isAway = () => undefined; // The store may be unavailable.
  while (!signal.aborted) {
    await Promise.all(
      keys.map(async (key) => {
        const askedAt = now();
        const lock = await backend.lookup({ key }).catch(isAway);
        if (lock) tell("seen", { t: askedAt, k: key, f: lock.fence });
      }),
    );
    await sleep(LOOK_EVERY_MS);
  }
  const left = [];
  for await (const { key } of listLocks(backend, { raw: true })) left.push(key);
  tell("left", { keys: left });
  await backend.close();
}
