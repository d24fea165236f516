// A short trial of the package on the current platform: `node smoke.mjs job.json`. It prints one line of
// JSON for each check, and exits with 1 if one failed. It must run wherever Node.js runs, even under
// emulators without pipes.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, existsSync, openSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { isMainThread, Worker } from "node:worker_threads";

/**
 * @typedef {object} Job
 * @property {string} package the name to import
 * @property {string[]} node the command that starts another Node.js
 * @property {string} folder an empty folder
 * @property {string} [redis] a URL
 * @property {{ url: string, ca: string }} [redisTls]
 * @property {string} [postgres] a URL
 * @property {boolean} [opensLater] whether the parent makes the default file writable by all afterwards
 *   and then starts the part `refusal`
 */

const self = fileURLToPath(import.meta.url);
const [jobFile, part] = process.argv.slice(2);
/** @type {Job} */
const job = JSON.parse(readFileSync(jobFile, "utf8"));
const entry = (name) => import(name ? `${job.package}/${name}` : job.package);

const CHECK_LIMIT_MS = 60_000;
const ROUNDS = 40;
const counterFile = join(job.folder, "counter");
const sharedFile = join(job.folder, "shared.db");
const state = join(job.folder, "state");
process.env.SYNCGUARD_STATE_DIR = state;

const { lock, LockError } = await entry();
const { createMemoryBackend } = await entry("memory");
const { createSqliteBackend } = await entry("sqlite");
const { createRedisBackend } = await entry("redis");
const { createPostgresBackend, setupSchema } = await entry("postgres");

const checks = {
  async memory() {
    const backend = createMemoryBackend();
    const fences = [];
    const once = () => lock(backend, ({ fence }) => fences.push(fence), { key: "k" });
    await Promise.all(Array.from({ length: 50 }, once));
    assert.deepEqual(fences, [...fences].sort());
    assert.equal(fences.at(-1), "000000000000050");
    await backend.close();
    return "50 locks, in order";
  },

  async "default SQLite file"() {
    const backend = createSqliteBackend();
    const seen = await pairs(backend, 20);
    assert(existsSync(join(state, "locks.db")));
    // On Windows the mode does not reflect access rights.
    const { mode } = statSync(state);
    if (process.platform !== "win32") assert.equal(mode & 0o777, 0o700);
    await backend.close();
    return seen;
  },

  "default SQLite file, open to all":
    !job.opensLater &&
    (async () => {
      if (process.platform !== "win32") chmodSync(state, 0o777);
      else execFileSync("icacls", [state, "/grant", "*S-1-1-0:(OI)(CI)F"], { stdio: "ignore" });
      return parts.refusal();
    }),

  "heartbeat, SQLite": () =>
    outliveBlockedLoop(createSqliteBackend(join(job.folder, "heartbeat.db"))),

  async "two processes, one SQLite file"() {
    writeFileSync(counterFile, "0");
    await Promise.all([start("count"), start("count")]);
    assert.equal(readFileSync(counterFile, "utf8"), String(2 * ROUNDS));
    return `${2 * ROUNDS} turns`;
  },

  async "worker thread"() {
    const worker = new Worker(self, { argv: [jobFile, "thread"] });
    const code = await new Promise((resolve, reject) => {
      worker.on("error", reject).on("exit", resolve);
    });
    assert.equal(code, 0);
    return "a lock of its own";
  },

  async "unreachable server"() {
    const backend = createRedisBackend("redis://127.0.0.1:1", { connectTimeoutMs: 3_000 });
    const error = await backend.acquire({ key: "k", ttlMs: 1_000 }).catch((caught) => caught);
    assert(error instanceof LockError);
    assert.match(error.code, /^(ServiceUnavailable|NetworkTimeout)$/);
    await backend.close();
    return error.code;
  },

  Redis: job.redis && (() => pairsAndClose(createRedisBackend(job.redis), 200)),
  "Redis over TLS":
    job.redisTls &&
    (() => {
      const { url, ca } = job.redisTls;
      return pairsAndClose(createRedisBackend({ url, tls: { ca } }), 50);
    }),
  "heartbeat, Redis": job.redis && (() => outliveBlockedLoop(createRedisBackend(job.redis))),
  PostgreSQL:
    job.postgres &&
    (async () => {
      await setupSchema(job.postgres);
      return pairsAndClose(createPostgresBackend(job.postgres), 50);
    }),
};

/** The parts that this program runs when it starts itself. */
const parts = {
  async count() {
    const backend = createSqliteBackend(sharedFile, { durability: "normal" });
    const acquisition = { timeoutMs: CHECK_LIMIT_MS, maxRetries: 1_000_000 };
    const add = async () => {
      const count = Number(readFileSync(counterFile, "utf8"));
      await sleep(1);
      writeFileSync(counterFile, String(count + 1));
    };
    for (let round = 0; round < ROUNDS; round++) {
      await lock(backend, add, { key: "counter", acquisition });
    }
    await backend.close();
  },

  /** Checks that the default file is refused if others could change it. */
  async refusal() {
    const backend = createSqliteBackend();
    const error = await backend.isLocked({ key: "k" }).catch((caught) => caught);
    assert.equal(error.code, "InvalidArgument");
    assert.match(error.message, /can be changed by other users/);
    await backend.close();
    return "refused";
  },

  async thread() {
    assert.equal(await lock(createMemoryBackend(), () => 7, { key: "k" }), 7);
  },
};

/** Acquires and releases repeatedly, one pair at a time. */
async function pairs(backend, count) {
  const started = performance.now();
  for (let index = 0; index < count; index++) {
    const held = await backend.acquire({ key: "pairs", ttlMs: 30_000 });
    assert.equal(held.ok, true);
    assert.equal((await held.release()).ok, true);
  }
  return `${count} pairs in ${Math.round(performance.now() - started)} ms`;
}

async function pairsAndClose(backend, count) {
  const seen = await pairs(backend, count);
  await backend.close();
  return seen;
}

/** Checks that a lock is kept alive while the event loop is blocked for much longer than the TTL. */
async function outliveBlockedLoop(backend) {
  const key = "heartbeat";
  const whileHeld = async ({ isHeld }) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_500);
    assert.equal(isHeld(), true);
    assert.equal((await backend.acquire({ key, ttlMs: 1_000 })).ok, false);
  };
  await lock(backend, whileHeld, { key, ttlMs: 1_000, autoExtend: true });
  assert.equal(await backend.isLocked({ key }), false);
  await backend.close();
  return "3.5 s with a TTL of 1 s";
}

/** Runs another process until it ends. */
async function start(name) {
  const log = openSync(join(job.folder, `${name}.log`), "a");
  const [command, ...args] = job.node;
  const child = spawn(command, [...args, self, jobFile, name], { stdio: ["ignore", log, log] });
  const code = await new Promise((resolve, reject) => {
    child.on("error", reject).on("exit", resolve);
  });
  assert.equal(code, 0, readFileSync(join(job.folder, `${name}.log`), "utf8"));
}

async function check(name, run) {
  let timer;
  const late = new Promise((_, reject) => {
    const error = new Error(`It took more than ${CHECK_LIMIT_MS / 1000} s.`);
    timer = setTimeout(() => reject(error), CHECK_LIMIT_MS);
  });
  try {
    const seen = await Promise.race([run(), late]);
    console.log(JSON.stringify({ check: name, ok: true, seen }));
  } catch (error) {
    console.log(JSON.stringify({ check: name, ok: false, seen: String(error?.stack ?? error) }));
    process.exitCode = 1;
  }
  clearTimeout(timer);
}

if (part) {
  await parts[part]();
} else if (isMainThread) {
  for (const [name, run] of Object.entries(checks)) if (run) await check(name, run);
}
