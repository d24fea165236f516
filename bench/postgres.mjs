// Compares the PostgreSQL backend with the documented transaction over postgres.js, one statement at a
// time, and with @verrou/core. All use ten connections.
import { existsSync } from "node:fs";
import { join } from "node:path";
import postgres from "postgres";
import { lock } from "syncguard";
import { createPostgresBackend, setupSchema } from "syncguard/postgres";
import { createSecond } from "../__test__/postgres/second.js";
import { npm } from "../scripts/lib/run.mjs";
import { startPostgres } from "../scripts/servers.mjs";
import { benchmark, standardScenarios } from "./lib/benchmark.mjs";
import { pairOf } from "./lib/pair.mjs";

const rivals = join(import.meta.dirname, "rivals");
if (!existsSync(join(rivals, "node_modules"))) {
  console.log("Installing the libraries to compare with. One of them may have to be compiled.");
  await npm(["ci", "--loglevel=error"], { cwd: rivals });
}
const { openVerrou } = await import("./rivals/verrou-postgres.mjs");

const POOL = 10;
const ttlMs = 30_000;

async function syncguard(url) {
  const names = { tableName: "ours", fenceTableName: "our_fences" };
  await setupSchema(url, names);
  const backend = createPostgresBackend(url, { ...names, poolSize: POOL });
  return {
    name: "syncguard/postgres",
    acquireRelease: pairOf(backend, ttlMs),
    runUnderLock: (key, fn) => lock(backend, fn, { key, ttlMs, acquisition }),
    teardown: () => backend.close(),
  };
}

// Long enough for the slowest contestant.
const acquisition = { timeoutMs: 60_000, maxRetries: 10_000 };

async function transactions(url) {
  const names = { tableName: "theirs", fenceTableName: "their_fences" };
  await setupSchema(url, names);
  const sql = postgres(url, { max: POOL });
  const backend = createSecond(sql, names);
  return {
    name: "transactions",
    reference: true,
    async acquireRelease(key) {
      const result = await backend.acquire({ key, ttlMs });
      if (!result.ok) throw new Error("not acquired");
      await backend.release({ lockId: result.lockId });
    },
    runUnderLock: (key, fn) =>
      lock(
        {
          ...backend,
          capabilities: { backend: "second", supportsFencing: true, timeAuthority: "server" },
        },
        fn,
        { key, ttlMs, acquisition },
      ),
    teardown: () => sql.end(),
  };
}

function verrou(url) {
  const { acquireRelease, runUnderLock, close } = openVerrou(url, POOL);
  return { name: "@verrou/core", acquireRelease, runUnderLock, teardown: close };
}

// With fsync the disk dominates. Without it, the work of the contestants shows.
for (const durable of [false, true]) {
  const server = await startPostgres({ durable });
  try {
    await benchmark({
      name: durable ? "postgres-durable" : "postgres",
      title: `PostgreSQL backend, fsync ${durable ? "on" : "off"}: acquire + release`,
      contestants: [
        await syncguard(server.url),
        await transactions(server.url),
        verrou(server.url),
      ],
      scenarios: standardScenarios({ inFlight: [32], workers: 50 }),
    });
  } finally {
    await server.stop();
  }
}
