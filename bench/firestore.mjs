// The Firestore backend against the documented transactions over Google's own client, both on the
// emulator.
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

function contestant(name, backend, close, more) {
  const acquire = async (key) => {
    const result = await backend.acquire({ key, ttlMs });
    if (!result.ok) throw new Error("not acquired");
    return result.lockId;
  };
  const release = (lockId) => backend.release({ lockId });
  return {
    name,
    acquire,
    release,
    acquireRelease: async (key) => void (await release(await acquire(key))),
    teardown: close,
    ...more,
  };
}

const backend = createFirestoreBackend(target, collections("syncguard"));
const syncguard = contestant("syncguard/firestore", backend, () => backend.close(), {
  runUnderLock: (key, fn) => lock(backend, fn, { key, ttlMs }),
});

const db = google(server.host);
const transactions = contestant(
  "transactions, @google-cloud/firestore",
  createSecond(db, collections("transactions")),
  () => db.terminate(),
  { reference: true },
);

/** Acquire alone: its latency, what it and a release cost in calls to the server. */
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
      await release(lockId);
    }
    await callsSince();
    const lockId = await acquire(`${name}:calls`);
    calls.acquire = await callsSince();
    await release(lockId);
    calls.release = await callsSince();
    return {
      acquireP50: quantile(latencies, 0.5) * 1000,
      acquireCalls: calls.acquire,
      releaseCalls: calls.release,
    };
  },
  metrics: [
    metric("acquireP50", "acquire p50, one in flight", "µs", "lower"),
    metric("acquireCalls", "calls to the server per acquire", "", "lower"),
    metric("releaseCalls", "calls to the server per release", "", "lower"),
  ],
};

let fresh = 0;
const parallel = {
  name: "acquire, 32 in flight",
  async run({ name, acquire }, ms) {
    let operations = 0;
    const start = performance.now();
    const lane = async () => {
      while (performance.now() - start < ms) {
        await acquire(`${name}:fresh:${fresh++}`);
        operations++;
      }
    };
    await Promise.all(Array.from({ length: 32 }, lane));
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
