// syncguard doctor: its findings on every backend, and on servers that are not set up correctly.

import { randomBytes } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { setupSchema } from "../../js/postgres.js";
import { createSqliteBackend } from "../../js/sqlite.js";
import { startPgBouncer, startPostgres, startRedis } from "../../scripts/servers.mjs";
import { connect as connectPostgres } from "../postgres/open.js";
import { testFolder } from "../sqlite/folder.js";
import { diagnose } from "../fixtures/api.js";
import { BACKENDS, connect, PROTECTS } from "./backends.js";
import { cli } from "./cli.js";

/** Returns the findings by name. */
async function examine(args) {
  const { code, stdout, stderr } = await cli(["doctor", "--json", ...args]);
  const found = stdout
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
  const by = Object.fromEntries(found.map((finding) => [finding.name, finding]));
  return { code, stderr, stdout, by, names: found.map(({ name }) => name) };
}

/** The findings besides those that every backend has. */
const NAMES = {
  redis: ["server", "persistence", "eviction", "replication", "prefixes"],
  postgres: ["server", "persistence", "replication", "schema", "rights"],
  firestore: ["server", "clock"],
  sqlite: ["server", "file", "file system", "persistence"],
};

describe.each(BACKENDS)("%s", (kind) => {
  let at;
  beforeAll(async () => (at = await connect(kind)));

  test("reports the backend, its capabilities and its speed", async () => {
    const { code, stderr, by, names } = await examine(at.args);
    expect(stderr).toBe("");
    expect(code).toBe(0);
    const measured = ["lock", "sharing", "round trip", ...(kind === "firestore" ? [] : ["clock"])];
    const first = ["syncguard", "backend", "protects"];
    expect(names).toEqual([...first, ...NAMES[kind], ...measured, "notifications"]);
    for (const finding of Object.values(by)) expect(finding.verdict).not.toBe("error");
    expect(by.backend.value).toBe(`${kind} at ${at.store}`);
    expect(by.protects).toEqual({ name: "protects", value: PROTECTS[kind], verdict: "ok" });
    expect(by.lock.value).toMatch(/^acquired and released, fence \d{15}$/);
    expect(by.sharing.value).toMatch(/^a share of a key acquired and released, slot \d$/);
    expect(by["round trip"].value).toMatch(/^[\d.]+ ms, at most [\d.]+ ms$/);
    expect(by.notifications).toMatchObject({ verdict: "ok" });
    expect(by.notifications.value).toMatch(/^a waiter has the lock [\d.]+ ms after its release$/);
    expect(at.backend.capabilities.waitsBy).toBe("notification");
  });

  test("prints a report for people", async () => {
    const { code, stdout, stderr } = await cli(["doctor", ...at.args]);
    expect([code, stderr]).toEqual([0, ""]);
    for (const name of NAMES[kind]) {
      expect(stdout).toMatch(new RegExp(`^(ok|warning) +${name}  +\\S`, "m"));
    }
  });
});

describe("without a URL", () => {
  const folder = testFolder();
  afterEach(() => vi.unstubAllEnvs());

  test("it names the default file and warns that it protects this host only", async () => {
    vi.stubEnv("TMPDIR", folder.path);
    vi.stubEnv("SYNCGUARD_STATE_DIR", folder.path);
    const backend = createSqliteBackend();
    const findings = await diagnose(backend);
    await backend.close();
    const file = findings.find(({ name }) => name === "file").value;
    expect(file.startsWith(folder.path)).toBe(true);

    const { code, by, stderr } = await examine([]);
    expect([code, stderr]).toEqual([0, ""]);
    expect(by.backend.value).toBe(`sqlite at sqlite:${file}`);
    expect(by.protects.value).toMatch(/^this host only\b/);
    expect(by.protects).toMatchObject({ verdict: "warning" });
    expect(by.protects.advice).toContain("SYNCGUARD_URL");
    const { stdout } = await cli(["ls"]);
    expect(stdout).toMatch(new RegExp(`^sqlite:${file} protects this host only\\b`));

    // Whoever names it means it.
    const named = await examine(["--url", "sqlite:"]);
    expect(named.by.backend.value).toBe(by.backend.value);
    expect(named.by.protects).toMatchObject({ verdict: "ok", value: by.protects.value });
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

  test("without persistence loses fences", async () => {
    const { url } = await start();
    const { code, by } = await examine(["--url", url]);
    expect(by.persistence).toMatchObject({ verdict: "warning", value: "no append-only file" });
    expect(code).toBe(0);
  });

  test("with replicas, and a replica itself", async () => {
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

  test("with prefixes that contain each other", async () => {
    const { url, cli: redis } = await start();
    const prefixes = async (...args) => (await examine(["--url", url, ...args])).by.prefixes;
    await redis("set", "geo:fence:north", "1");
    expect(await prefixes()).toEqual({
      name: "prefixes",
      value: "none contains another",
      verdict: "ok",
    });
    // The lock that it takes has a counter, which it sees the next time.
    await prefixes("--prefix", "syncguard:billing");
    const found = await prefixes();
    expect(found).toMatchObject({ verdict: "warning" });
    expect(found.value).toBe('"syncguard" contains "syncguard:billing"');
    expect(found.advice).toContain("share locks");
  });

  test("whose user has only the permissions for locking", async () => {
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

test("a wrong password", async () => {
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

  test("without the tables, and with different tables", async () => {
    const { code, by, names } = await examine(["--url", server.url, "--prefix", "none"]);
    expect(code).toBe(1);
    expect(by.schema).toMatchObject({ verdict: "error", value: "the tables are missing" });
    for (const remedy of ["setupSchema()", "npx syncguard schema --prefix none --apply"]) {
      expect(by.schema.advice).toContain(remedy);
    }
    expect(by.lock).toMatchObject({ verdict: "error" });
    expect(names).not.toContain("rights");

    await setupSchema(server.url, { tableName: "odd_locks", fenceTableName: "odd_fence_counters" });
    await sql`DROP INDEX idx_odd_locks_lock_id`;
    const odd = await examine(["--url", server.url, "--prefix", "odd"]);
    expect(odd.code).toBe(1);
    expect(odd.by.schema).toMatchObject({
      verdict: "error",
      value: "an index or a column is missing",
    });
  });

  test("with the tables of an earlier version works, except for shared keys", async () => {
    await setupSchema(server.url, { tableName: "old_locks", fenceTableName: "old_fence_counters" });
    await sql`DROP TABLE old_locks_holders`;
    const { code, by } = await examine(["--url", server.url, "--prefix", "old"]);
    expect(code).toBe(0);
    expect(by.schema).toMatchObject({
      verdict: "warning",
      value: "the table of shared keys is missing",
    });
    expect(by.schema.advice).toContain("npx syncguard schema --prefix old --apply");
    expect(by.lock).toMatchObject({ verdict: "ok" });
  });

  test("whose role lacks privileges", async () => {
    await setupSchema(server.url, {});
    await sql.unsafe(`CREATE ROLE reader LOGIN;
      GRANT SELECT ON syncguard_locks, syncguard_fence_counters TO reader`);
    const url = new URL(server.url);
    url.username = "reader";
    const { code, by } = await examine(["--url", url.href]);
    expect(code).toBe(1);
    expect(by.rights).toMatchObject({
      verdict: "error",
      value: [
        "no INSERT, UPDATE, DELETE on the lock table",
        "no INSERT, UPDATE on the counter table",
        "no SELECT, INSERT, UPDATE, DELETE on the table of shared keys",
      ].join(", "),
    });
  });

  test("behind a pooler in transaction mode does not notify", async () => {
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
