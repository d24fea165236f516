// Compares this checkout with another one that has been built, plain and with telemetry:
//   npm run bench -- change --against=../before
// Shows whether a change made an operation slower, in one alternating run.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { startPostgres, startRedis } from "../scripts/servers.mjs";
import { benchmark, standardScenarios } from "./lib/benchmark.mjs";
import { pairOf } from "./lib/pair.mjs";

const TTL_MS = 30_000;
const here = resolve(import.meta.dirname, "..");
const against = process.argv
  .find((arg) => arg.startsWith("--against="))
  ?.slice("--against=".length);

if (against) await compare(resolve(against));
else console.log("change: skipped, because --against=<another checkout> is missing.");

async function compare(there) {
  const redis = await startRedis();
  const postgres = await startPostgres({ durable: false });
  try {
    await measure("memory", "Memory", there, ({ createMemoryBackend }) => createMemoryBackend());
    await measure(
      "redis",
      "Redis",
      there,
      ({ createRedisBackend }) => createRedisBackend(redis.url),
      redis.server.pid,
    );
    await measure("postgres", "PostgreSQL", there, async (module) => {
      await module.setupSchema(postgres.url);
      return module.createPostgresBackend(postgres.url);
    });
  } finally {
    await postgres.stop();
    await redis.stop();
  }
}

async function measure(kind, title, there, open, serverPid) {
  const contestants = [];
  for (const [name, root] of [
    ["after", here],
    ["before", there],
  ]) {
    const module = await load(root, kind);
    const common = await load(root, "index");
    const reference = name === "before";
    const backend = await open(module);
    contestants.push(contestant({ name, reference, backend, common }));
    const observed = common.withTelemetry(backend, { onEvent: () => {} });
    contestants.push(contestant({ name: `${name}, telemetry`, backend: observed, common }));
  }
  try {
    await benchmark({
      name: `change-${kind}`,
      title: `${title}: this checkout and the other one`,
      contestants,
      scenarios: standardScenarios({ inFlight: [64], serverPid }),
    });
  } finally {
    for (const one of contestants) await one.close();
  }
}

function load(root, module) {
  return import(pathToFileURL(resolve(root, `js/${module}.js`)).href);
}

function contestant({ name, reference, backend, common }) {
  const acquisition = { maxRetries: 1e9, timeoutMs: 600_000 };
  return {
    name,
    reference,
    acquireRelease: pairOf(backend, TTL_MS),
    runUnderLock: (key, fn) => common.lock(backend, fn, { key, ttlMs: TTL_MS, acquisition }),
    close: () => backend.close?.(),
  };
}
