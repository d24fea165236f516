// syncguard doctor: what it finds on every backend, and on servers that are not as they should be.

import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { setupSchema } from "../../js/postgres.js";
import { startPgBouncer, startPostgres, startRedis } from "../../scripts/servers.mjs";
import { connect as connectPostgres } from "../postgres/open.js";
import { BACKENDS, connect } from "./backends.js";
import { cli } from "./cli.js";

/** Its findings by name. */
async function examine(args) {
  const { code, stdout, stderr } = await cli(["doctor", "--json", ...args]);
  const found = stdout
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
  const by = Object.fromEntries(found.map((finding) => [finding.name, finding]));
  return { code, stderr, stdout, by, names: found.map(({ name }) => name) };
}

/** Beside those that every backend has. */
const NAMES = {
  redis: ["server", "persistence", "eviction", "replication"],
  postgres: ["server", "persistence", "replication", "schema", "rights"],
  firestore: ["server", "clock"],
  sqlite: ["server", "file", "file system", "persistence"],
};

describe.each(BACKENDS)("%s", (kind) => {
  let at;
  beforeAll(async () => (at = await connect(kind)));

  test("what it is, what it can do, and how fast it is", async () => {
    const { code, stderr, by, names } = await examine(at.args);
    expect(stderr).toBe("");
    expect(code).toBe(0);
    const measured = ["lock", "round trip", ...(kind === "firestore" ? [] : ["clock"])];
    expect(names).toEqual(["syncguard", "backend", ...NAMES[kind], ...measured, "notifications"]);
    for (const finding of Object.values(by)) expect(finding.verdict).not.toBe("error");
    expect(by.backend.value).toMatch(new RegExp(`^${kind} at ${kind}:`));
    expect(by.lock.value).toMatch(/^taken and released, fence \d{15}$/);
    expect(by["round trip"].value).toMatch(/^[\d.]+ ms, at most [\d.]+ ms$/);
    expect(by.notifications).toMatchObject({ verdict: "ok" });
    expect(by.notifications.value).toMatch(/^a waiter has the lock [\d.]+ ms after its release$/);
    expect(at.backend.capabilities.waitsBy).toBe("notification");
  });

  test("for people", async () => {
    const { code, stdout, stderr } = await cli(["doctor", ...at.args]);
    expect([code, stderr]).toEqual([0, ""]);
    for (const name of NAMES[kind]) {
      expect(stdout).toMatch(new RegExp(`^(ok|warning) +${name}  +\\S`, "m"));
    }
  });
});

describe("a Redis", () => {
  const servers = [];
  const start = async (options) => {
    const server = await startRedis(options);
    servers.push(server);
    return server;
  };
  afterAll(() => Promise.all(servers.map((server) => server.stop())));

  test.each([
    ["allkeys-lru", "100mb", "error", "fence counters"],
    ["volatile-ttl", "100mb", "error", "locks that are held"],
    ["allkeys-lfu", "0", "warning", "fence counters"],
    ["noeviction", "100mb", "ok", ""],
  ])("that evicts by %s with a maxmemory of %s", async (policy, limit, verdict, advice) => {
    const config = { "maxmemory-policy": policy, maxmemory: limit, appendonly: "yes" };
    const { url } = await start({ config });
    const { code, by } = await examine(["--url", url]);
    expect(by.eviction).toMatchObject({ verdict });
    expect(by.eviction.value).toContain(policy);
    expect(by.eviction.advice ?? "").toContain(advice);
    expect(by.persistence).toMatchObject({ verdict: "ok", value: "append-only file" });
    expect(code).toBe(verdict === "error" ? 1 : 0);
  });

  test("without persistence forgets fences", async () => {
    const { url } = await start();
    const { code, by } = await examine(["--url", url]);
    expect(by.persistence).toMatchObject({ verdict: "warning", value: "no append-only file" });
    expect(code).toBe(0);
  });

  test("that has replicas, and a replica", async () => {
    const master = await start();
    const config = { replicaof: `127.0.0.1 ${master.port}` };
    const replica = await start({ config });
    const { by } = await examineUntil(["--url", master.url], ({ replication }) =>
      replication.value.includes("1"),
    );
    expect(by.replication.advice).toContain("failover");
    const asked = await examine(["--url", replica.url]);
    expect(asked.code).toBe(1);
    expect(asked.by.replication).toMatchObject({ verdict: "error" });
  });

  test("whose user may do no more than lock", async () => {
    const password = randomBytes(9).toString("base64url");
    const rules = "~* +eval +evalsha +get +set +del +incr +decr +time";
    const { url } = await start({ acl: { username: "locker", password, rules } });
    const { code, by, stdout, stderr } = await examine(["--url", url]);
    expect(code).toBe(0);
    expect(by.server).toMatchObject({ verdict: "warning" });
    expect(by.server.advice).toContain("INFO");
    expect(by.notifications).toMatchObject({ verdict: "warning" });
    expect(by.notifications.advice).toMatch(/permission for .*CLIENT/);
    expect(stdout + stderr).not.toContain(password);
  });
});

test("a password that is wrong", async () => {
  const server = await startRedis({ acl: { username: "locker", password: "right" } });
  try {
    const url = server.url.replace("right", "wr0ng");
    const { code, stdout, stderr } = await examine(["--url", url]);
    expect(code).toBe(69);
    expect(stderr).toMatch(/^syncguard: .+\(AuthFailed\)\.\n$/);
    expect(stdout + stderr).not.toContain("wr0ng");
  } finally {
    await server.stop();
  }
});

async function examineUntil(args, isThere) {
  for (let tries = 0; ; tries += 1) {
    const examined = await examine(args);
    if (isThere(examined.by) || tries > 10) return examined;
  }
}

describe("a PostgreSQL", () => {
  let server, sql;
  beforeAll(async () => {
    server = await startPostgres();
    sql = connectPostgres(server.url);
  });
  afterAll(async () => {
    await sql.end();
    await server.stop();
  });

  test("without the tables, and with tables of another making", async () => {
    const { code, by, names } = await examine(["--url", server.url, "--prefix", "none"]);
    expect(code).toBe(1);
    expect(by.schema).toMatchObject({ verdict: "error", value: "the tables are missing" });
    expect(by.schema.advice).toContain("setupSchema()");
    expect(by.lock).toMatchObject({ verdict: "error" });
    expect(names).not.toContain("rights");

    await setupSchema(server.url, { tableName: "odd_locks", fenceTableName: "odd_fence_counters" });
    await sql`DROP INDEX idx_odd_locks_lock_id`;
    const odd = await examine(["--url", server.url, "--prefix", "odd"]);
    expect(odd.code).toBe(1);
    expect(odd.by.schema).toMatchObject({ verdict: "error", value: "an index is missing" });
  });

  test("whose role lacks rights", async () => {
    await setupSchema(server.url, {});
    await sql.unsafe(`CREATE ROLE reader LOGIN;
      GRANT SELECT ON syncguard_locks, syncguard_fence_counters TO reader`);
    const url = new URL(server.url);
    url.username = "reader";
    const { code, by } = await examine(["--url", url.href]);
    expect(code).toBe(1);
    expect(by.rights).toMatchObject({
      verdict: "error",
      value: "no INSERT, UPDATE, DELETE on the lock table, no INSERT, UPDATE on the counter table",
    });
  });

  test("behind a pooler that keeps no session does not notify", async () => {
    await setupSchema(server.url, {});
    const bouncer = await startPgBouncer(server, { poolSize: 3 });
    try {
      const { code, by } = await examine(["--url", bouncer.url]);
      expect(code).toBe(0);
      expect(by.notifications).toMatchObject({ verdict: "warning" });
      expect(by.notifications.advice).toMatch(/\w/);
    } finally {
      await bouncer.stop();
    }
  });
});
