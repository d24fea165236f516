// The stores of the proof: how to start each one, and its faults.

import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { setupSchema } from "../js/postgres.js";
import {
  startFirestore,
  startPgBouncer,
  startPostgres,
  startRedis,
  startRedisCluster,
  startRedisSentinel,
} from "../scripts/servers.mjs";
import { eventually, temporaryDirectory } from "../scripts/servers/server.mjs";

const LIMITS = { connectTimeoutMs: 1_500, operationTimeoutMs: 1_500 };
const TOLERANCE_MS = 1_000;

/** Longer than the tolerance for clocks, so a pause of three TTLs exceeds both together. */
const TTL_MS = 1_000;

const LOSES_WRITES = { mayLoseWrites: true };

/** The time between failovers, during which nothing is guaranteed. */
const SELDOM_MS = [12_000, 30_000];

const forMs = (begin, end) => async (ms) => {
  await begin();
  await sleep(ms);
  await end();
};

/** Faults of any server. */
const serverFaults = (server, name) => ({
  [`${name} killed and restarted`]: forMs(
    () => server.kill(),
    () => server.restart(),
  ),
  ...stalled(server, name),
});

const stalled = (server, name) => ({
  [`${name} stopped`]: forMs(
    () => server.suspend(),
    () => server.resume(),
  ),
});

/** If `isKilled`, the server must lose nothing when it is killed. Otherwise it should be fast. */
async function redis({ isKilled = true } = {}) {
  // Every answered write has been passed to the operating system, so a killed server loses nothing.
  // Without "no", answers may be sent before the write. The disk matters only in a power cut.
  const server = await startRedis({
    config: isKilled ? { appendonly: "yes", appendfsync: "no" } : {},
  });
  return {
    ttlMs: 500,
    toleranceMs: 0,
    port: server.port,
    backend: (port) => ({ name: "redis", target: `redis://127.0.0.1:${port}`, options: LIMITS }),
    faults: serverFaults(server, "server"),
    disconnect: () => server.cli("client", "kill", "type", "normal"),
    clockStepMs: 3_600_000,
    stop: () => server.stop(),
  };
}

async function redisSentinel() {
  const group = await startRedisSentinel({ config: { appendonly: "yes" } });
  const sentinels = group.sentinels.map(({ host, port }) => ({ host, port }));
  const settled = () => oneMaster(group.nodes);
  const master = async () => {
    const port = await group.masterPort();
    return group.nodes.find((node) => node.port === port);
  };
  return {
    ttlMs: 500,
    toleranceMs: 0,
    backend: () => ({ name: "redis", target: { sentinels, name: group.name }, options: LIMITS }),
    faults: {
      async failover() {
        const before = await master();
        await eventually("another master", async () => {
          if ((await master()) !== before) return true;
          await group.sentinels[0].cli("sentinel", "failover", group.name); // May be refused.
          return false;
        });
        await eventually("the old master follows", settled);
      },
      async "master killed"(ms) {
        const node = await master();
        await node.kill();
        await eventually("another master", async () => (await master()) !== node);
        await sleep(ms);
        await node.restart();
        await eventually("the old master follows", settled);
      },
      async "master stopped"(ms) {
        const node = await master();
        node.suspend();
        await sleep(ms);
        node.resume();
        // The node may have been replaced meanwhile.
        await sleep(2_000);
        await eventually("one master", settled);
      },
    },
    effects: {
      failover: LOSES_WRITES,
      "master killed": LOSES_WRITES,
      "master stopped": LOSES_WRITES,
    },
    gapMs: SELDOM_MS,
    stop: () => group.stop(),
  };
}

async function redisCluster() {
  const cluster = await startRedisCluster({ replicas: 1, config: { appendonly: "yes" } });
  const nodes = cluster.nodes.map(({ host, port }) => ({ host, port }));
  const keyPrefix = "prove";
  const roleOf = (node) => node.cli("role").catch(() => "");
  /** Finds the master that has all our locks, and its replica. */
  const pair = async () => {
    for (const node of cluster.nodes) {
      const role = await roleOf(node);
      const answer = await node.cli("exists", `{${keyPrefix}}:x`).catch(() => "");
      const port = /^slave\n127\.0\.0\.1\n(\d+)/.exec(role)?.[1];
      if (port || !/^\d+$/.test(answer)) continue;
      const [, follower] = /\n127\.0\.0\.1\n(\d+)\n/.exec(role) ?? [];
      return [node, cluster.nodes.find((other) => String(other.port) === follower)];
    }
    return [];
  };
  const complete = () =>
    eventually("master and replica", async () => (await pair()).filter(Boolean).length === 2);
  return {
    ttlMs: 500,
    toleranceMs: 0,
    backend: () => ({ name: "redis", target: { cluster: nodes, keyPrefix }, options: LIMITS }),
    faults: {
      async failover() {
        const [, replica] = await pair();
        await replica?.cli("cluster", "failover");
        await sleep(1_000);
        await complete();
      },
      async "master killed"(ms) {
        const [node] = await pair();
        await node.kill();
        await eventually("another master", async () => (await pair()).length === 2);
        await sleep(ms);
        await node.restart();
        await complete();
      },
    },
    effects: { failover: LOSES_WRITES, "master killed": LOSES_WRITES },
    gapMs: SELDOM_MS,
    stop: () => cluster.stop(),
  };
}

/** Whether one node accepts writes and the others follow it. */
async function oneMaster(nodes) {
  const roles = await Promise.all(nodes.map((node) => node.cli("role").catch(() => "")));
  const masters = roles.filter((role) => role.startsWith("master"));
  const followers = roles.filter((role) => /^slave\n.*\n\d+\nconnected\n/.test(role));
  return masters.length === 1 && followers.length === nodes.length - 1;
}

/** The guarantees that each fault suspends. */
const FORGETFUL = { "server killed and restarted": { mayForgetReleases: true } };

const DISCONNECT =
  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";

/** The backend that reaches PostgreSQL through this server or pooler. */
const overPostgres = ({ url, port: own }) => ({
  ttlMs: TTL_MS,
  toleranceMs: TOLERANCE_MS,
  port: own,
  backend: (port) => ({
    name: "postgres",
    target: url.replace(own, port),
    options: { ...LIMITS, poolSize: 4 },
  }),
  effects: FORGETFUL,
});

async function postgres() {
  const server = await startPostgres();
  await setupSchema(server.url);
  return {
    ...overPostgres(server),
    faults: serverFaults(server, "server"),
    disconnect: () => server.psql(DISCONNECT),
    clockStepMs: 3_600_000,
    stop: () => server.stop(),
  };
}

async function pgbouncer() {
  const server = await startPostgres();
  await setupSchema(server.url);
  // By default PgBouncer refuses clients for 15 s after it failed to reach the server.
  const pooler = await startPgBouncer(server, { config: { server_login_retry: 1 } });
  return {
    ...overPostgres(pooler),
    faults: {
      "PgBouncer restarted": () => pooler.restart(),
      ...serverFaults(pooler, "PgBouncer"),
      ...serverFaults(server, "server"),
    },
    async stop() {
      await pooler.stop();
      await server.stop();
    },
  };
}

async function firestore({ isKilled = true } = {}) {
  const server = await startFirestore({ release: !isKilled });
  return {
    ttlMs: TTL_MS,
    toleranceMs: TOLERANCE_MS,
    port: server.port,
    backend: (port) => ({
      name: "firestore",
      target: { projectId: "prove", emulatorHost: `127.0.0.1:${port}` },
      options: LIMITS,
    }),
    // The emulator keeps its data in memory. If it were killed, it would lose data, unlike Firestore.
    faults: stalled(server, "server"),
    // Clocks must agree within half a second.
    clockStepMs: 400,
    stop: () => server.stop(),
  };
}

async function sqlite() {
  const folder = temporaryDirectory();
  const disk = smallDisk(folder.path);
  const ballast = join(folder.path, "ballast");
  return {
    ttlMs: TTL_MS,
    toleranceMs: TOLERANCE_MS,
    backend: () => ({
      name: "sqlite",
      target: join(folder.path, "locks.db"),
      options: LIMITS,
    }),
    faults: {
      ...(disk && {
        "disk full": forMs(
          () => fill(ballast),
          () => rmSync(ballast, { force: true }),
        ),
      }),
    },
    // This is less than the tolerance.
    clockStepMs: 400,
    farClockStepMs: 3_600_000,
    notes: disk ? [] : ["A full disk was not tried: this user may not mount a small one."],
    async stop() {
      disk?.remove();
      folder.remove();
    },
  };
}

/** Mounts a file system of 24 MB in memory, if that is permitted. */
function smallDisk(path) {
  if (process.platform !== "linux" || process.getuid() !== 0) return undefined;
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=24m", "syncguard-prove", path], {
      stdio: "ignore",
    });
  } catch {
    return undefined;
  }
  return { remove: () => execFileSync("umount", ["-l", path]) };
}

function fill(file) {
  for (let bytes = 1 << 20; bytes >= 4096; bytes >>= 1) {
    try {
      for (;;) writeFileSync(file, Buffer.alloc(bytes), { flag: "a" });
    } catch (error) {
      if (error.code !== "ENOSPC") throw error;
    }
  }
}

/** Each process has its own locks, so this is a run without a lock between processes. */
async function control() {
  return {
    ttlMs: 500,
    toleranceMs: TOLERANCE_MS,
    backend: () => ({ name: "memory" }),
    faults: {},
    isBroken: true,
    stop: async () => {},
  };
}

/** One process, whose locks work, but which ignores how many may share a key. */
async function controlOfLimits() {
  return {
    ...(await control()),
    size: { processes: 1 },
    backend: () => ({ name: "memory", ignoresLimits: true }),
  };
}

export const STORES = {
  redis,
  "redis-sentinel": redisSentinel,
  "redis-cluster": redisCluster,
  postgres,
  pgbouncer,
  firestore,
  sqlite,
  control,
  "control-limits": controlOfLimits,
};
