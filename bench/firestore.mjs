// Compares the Firestore backend with the documented transactions over @google-cloud/firestore, both on
// the emulator.
import { createFirestoreBackend } from "syncguard/firestore";
import { lock } from "syncguard";
import { google, PROJECT } from "../__test__/firestore/open.js";
import { createSecond } from "../__test__/firestore/second.js";
import { startFirestore } from "../scripts/servers.mjs";
import { benchmark, metric, standardScenarios } from "./lib/benchmark.mjs";
import { quantile } from "./lib/statistics.mjs";

const ttlMs = 30_000;
const server = await startFirestore({ release: true });
const target = { projectId: PROJECT, emulatorHost: server.host };
const collections = (name) => ({ collection: `${name}_locks`, fenceCollection: `${name}_fences` });

/** `backend(key)` returns the backend for that key. */
function contestant(name, backend, close, more) {
  const acquire = async (key) => {
    const result = await backend(key).acquire({ key, ttlMs });
    if (!result.ok) throw new Error("not acquired");
    return result.lockId;
  };
  const release = (key, lockId) => backend(key).release({ lockId });
  return {
    name,
    acquire,
    release,
    acquireRelease: async (key) => void (await release(key, await acquire(key))),
    teardown: close,
    ...more,
  };
}

const backend = createFirestoreBackend(target, collections("syncguard"));
const syncguard = contestant(
  "syncguard/firestore",
  () => backend,
  () => backend.close(),
  {
    runUnderLock: (key, fn) => lock(backend, fn, { key, ttlMs }),
  },
);

// On the emulator, the query in the documented release locks the whole collection, and 32 at once
// would fail. A separate collection for each key avoids that.
const db = google(server.host);
const seconds = new Map();
function second(key) {
  const name = key.includes(":fresh:") ? "fresh" : key.replaceAll(/[^a-z0-9]/gi, "_");
  if (!seconds.has(name)) seconds.set(name, createSecond(db, collections(name)));
  return seconds.get(name);
}
const transactions = contestant("transactions", second, () => db.terminate(), { reference: true });

/** Measures the latency of acquire alone, and the calls that acquire and release make to the server. */
const single = {
  name: "acquire, one in flight",
  async run({ name, acquire, release }, ms) {
    const latencies = [];
    const calls = { acquire: 0, release: 0 };
    const start = performance.now();
    for (let n = 0; performance.now() - start < ms; n++) {
      const key = `${name}:acquire:${n % 16}`;
      const before = performance.now();
      const lockId = await acquire(key);
      latencies.push(performance.now() - before);
      await release(key, lockId);
    }
    await callsSince();
    const key = `${name}:calls`;
    const lockId = await acquire(key);
    calls.acquire = await callsSince();
    await release(key, lockId);
    calls.release = await callsSince();
    return {
      acquireP50: quantile(latencies, 0.5) * 1000,
      acquireCalls: calls.acquire,
      releaseCalls: calls.release,
    };
  },
  metrics: [
    metric("acquireP50", "acquire p50, one in flight", "µs", "lower"),
    metric("acquireCalls", "gRPC calls per acquire", "calls", "lower"),
    metric("releaseCalls", "gRPC calls per release", "calls", "lower"),
  ],
};

let fresh = 0;
const parallel = {
  name: "acquire, 32 in flight",
  async run({ name, acquire }, ms) {
    let operations = 0;
    const start = performance.now();
    const worker = async () => {
      while (performance.now() - start < ms) {
        await acquire(`${name}:fresh:${fresh++}`);
        operations++;
      }
    };
    await Promise.all(Array.from({ length: 32 }, worker));
    return { acquire32: (operations / (performance.now() - start)) * 1000 };
  },
  metrics: [metric("acquire32", "acquires of free keys, 32 in flight", "op/s", "higher")],
};

async function callsSince() {
  const names = await (await fetch(`http://${server.host}/calls`)).json();
  return names.length;
}

try {
  await benchmark({
    name: "firestore",
    title: "Firestore backend: acquire, and acquire + release, on the emulator",
    contestants: [syncguard, transactions],
    scenarios: [
      single,
      parallel,
      ...standardScenarios({ inFlight: [32], serverPid: server.server.pid }),
    ],
  });
} finally {
  await server.stop();
}
