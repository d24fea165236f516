// Compares the memory backend with a mutex written in JavaScript.
import { Mutex } from "async-mutex";
import { createMemoryBackend } from "syncguard/memory";
import { lock } from "syncguard";
import { benchmark, standardScenarios } from "./lib/benchmark.mjs";
import { pairOf } from "./lib/pair.mjs";

const backend = createMemoryBackend();

const syncguard = {
  name: "syncguard/memory",
  acquireRelease: pairOf(backend),
  runUnderLock: (key, fn) => lock(backend, fn, { key, ttlMs: 30_000 }),
  teardown: () => backend.close(),
};

const mutexes = new Map();
function mutex(key) {
  let found = mutexes.get(key);
  if (!found) mutexes.set(key, (found = new Mutex()));
  return found;
}

// Shows the cost of the bare minimum: no keys, no expiry, no fences.
const asyncMutex = {
  name: "async-mutex",
  reference: true,
  async acquireRelease(key) {
    const release = await mutex(key).acquire();
    release();
  },
  runUnderLock: (key, fn) => mutex(key).runExclusive(fn),
};

await benchmark({
  name: "memory",
  title: "Memory backend: acquire + release",
  contestants: [syncguard, asyncMutex],
  scenarios: standardScenarios({ inFlight: [64] }),
});
