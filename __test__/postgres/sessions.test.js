// The number of sessions, and the settings that they copy from the client of another library.

import pg from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPostgresBackend, setupSchema } from "../../js/postgres.js";
import { readTarget } from "../../js/targets/postgres/target.js";
import { startPostgres } from "../../scripts/servers.mjs";
import { lock } from "../fixtures/api.js";
import { until } from "../fixtures/wait.js";
import { connect } from "./open.js";

let server, sql;
beforeAll(async () => {
  server = await startPostgres();
  await setupSchema(server.url);
  sql = connect(server.url, { max: 2 });
});
afterAll(async () => {
  await sql.end();
  await server.stop();
});

/** A role of its own, so that all sessions of a backend can be told from others. */
async function newRole(name, limit = -1) {
  await server.psql(`CREATE ROLE ${name} LOGIN CONNECTION LIMIT ${limit};
    GRANT ALL ON syncguard_locks, syncguard_fence_counters TO ${name}`);
  return server.url.replace("//syncguard@", `//${name}@`);
}

const sessionsOf = (role) => sql`SELECT application_name, query FROM pg_stat_activity
  WHERE usename = ${role} AND backend_type = 'client backend'`;

/** Everything at once: waits, heartbeats, single attempts, looks. */
async function useAll(backend, prefix) {
  const keys = Array.from({ length: 8 }, (_, index) => `${prefix}:${index}`);
  const config = { ttlMs: 3_000, autoExtend: true, acquisition: { timeoutMs: 60_000 } };
  for (let round = 0; round < 3; round++) {
    const waits = keys.flatMap((key) =>
      [1, 2, 3].map(() => lock(backend, nap, { key, ...config })),
    );
    const attempts = keys.map(async (key) => {
      const held = await backend.acquire({ key: `${key}:alone`, ttlMs: 3_000 });
      await held.extend(3_000);
      await backend.lookup({ key });
      await held.release();
    });
    await Promise.all([...waits, ...attempts]);
  }
}

const nap = () => new Promise((resolve) => setTimeout(resolve, 30));

const sources = [
  [
    "a pg Pool",
    (url, max) => new pg.Pool({ connectionString: url, max, application_name: "mine" }),
  ],
  ["postgres.js", (url, max) => postgres(url, { max, connection: { application_name: "mine" } })],
  ["options", (url, poolSize) => ({ url, poolSize, applicationName: "mine" })],
];

describe.each([1, 2, 3, 4, 6])("at most %i", (max) => {
  test.each(sources)("of %s, whatever they are for", async (name, source) => {
    const role = `role_${max}_${name.replaceAll(/\W/g, "").toLowerCase()}`;
    const backend = createPostgresBackend(source(await newRole(role), max));
    let done = false;
    const using = useAll(backend, role).finally(() => (done = true));
    const names = new Set();
    let most = 0;
    while (!done) {
      const sessions = await sessionsOf(role);
      most = Math.max(most, sessions.length);
      for (const { application_name } of sessions) names.add(application_name);
    }
    await using;
    expect(most).toBeLessThanOrEqual(max);
    expect([...names]).toEqual(["mine"]);
    await backend.close();
    await until(async () => (await sessionsOf(role)).length === 0, "the sessions to end");
  });

  test("a server that allows no more connections", async () => {
    const role = `limited_${max}`;
    const backend = createPostgresBackend(await newRole(role, max), { poolSize: max });
    await useAll(backend, role);
    await backend.close();
  });
});

describe("settings that are copied", () => {
  const read = (client, options) => readTarget(client, options).config;
  const database = { host: "127.0.0.1", port: 5432, user: "u", database: "d" };

  test("from pg", () => {
    const pool = new pg.Pool({
      ...database,
      max: 7,
      keepAlive: true,
      keepAliveInitialDelayMillis: 20_000,
      connectionTimeoutMillis: 1_500,
      options: "-c search_path=app",
      fallback_application_name: "fallback",
    });
    expect(read(pool)).toMatchObject({
      poolSize: 7,
      connectTimeoutMs: 1_500,
      params: {
        keepalives: "1",
        keepalives_idle: "20",
        options: "-c search_path=app",
        fallback_application_name: "fallback",
      },
    });
    expect(read(pool, { poolSize: 3, connectTimeoutMs: 100 })).toMatchObject({
      poolSize: 3,
      connectTimeoutMs: 100,
    });
    const plain = read(new pg.Pool(database));
    expect(plain.poolSize).toBe(10);
    expect(plain.params).not.toHaveProperty("connect_timeout");
    expect(plain.params.fallback_application_name).toBe("syncguard");
    expect(read(new pg.Client(database)).poolSize).toBe(undefined);
    expect(read(new pg.Pool({ ...database, max: 5_000 })).poolSize).toBe(1_000);
  });

  test("from postgres.js", () => {
    const client = postgres({ ...database, max: 7, keep_alive: 15, connect_timeout: 3 });
    expect(read(client)).toMatchObject({
      poolSize: 7,
      params: { keepalives_idle: "15", connect_timeout: "3", application_name: "postgres.js" },
    });
    expect(read(postgres(database)).params).not.toHaveProperty("connect_timeout");
  });
});
