// Each kind of target, against servers that accept only the right ones.

import { userInfo } from "node:os";
import { inspect } from "node:util";
import pg from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createBackend, createLock as createLockByUrl } from "../../js/index.js";
import { createLock, createPostgresBackend, setupSchema } from "../../js/postgres.js";
import { startPostgres } from "../../scripts/servers.mjs";

const PASSWORD = "p@ss:w/o'r\\d? ö%#&+";
const ttlMs = 60_000;
let server, open, mutual;
beforeAll(async () => {
  [server, open, mutual] = await Promise.all([
    startPostgres({ tls: true, password: PASSWORD }),
    startPostgres(),
    startPostgres({ tls: "client-certificate" }),
  ]);
  for (const { psql } of [server, open, mutual]) await psql("CREATE SCHEMA app");
  await Promise.all([server, open].map(({ url }) => setupSchema(url)));
}, 120_000);
afterAll(() => Promise.all([server.stop(), open.stop(), mutual.stop()]));

/** The target works; for `options`, the settings of its session are returned. */
async function works(...args) {
  await setupSchema(...args);
  const backend = createPostgresBackend(...args);
  try {
    const held = await backend.acquire({ key: "k", ttlMs });
    expect(held.ok).toBe(true);
    expect(await held.release()).toEqual({ ok: true });
  } finally {
    await backend.close();
  }
}

const fails = (...args) => works(...args).catch((error) => error);

describe("URLs", () => {
  test.each(["require", "verify-ca", "verify-full"])("sslmode=%s", async (mode) => {
    const root = `&sslrootcert=${server.tls.files.ca}`;
    await works(server.url.replace("require", mode) + root);
  });

  test("without a root certificate, require does not verify and verify-full does", async () => {
    await works(server.url);
    const error = await fails(server.url.replace("require", "verify-full"));
    expect(error.code).toBe("AuthFailed");
    expect(error.cause.message).toMatch(/certificate/);
  });

  test("verify-full needs the right name, verify-ca only the right authority", async () => {
    const root = `&sslrootcert=${server.tls.files.ca}`;
    const url = `${server.url.replace("127.0.0.1", "wrong.example")}${root}&hostaddr=127.0.0.1`;
    await works(url.replace("require", "verify-ca"));
    expect((await fails(url.replace("require", "verify-full"))).code).toBe("AuthFailed");
    const stranger = url.replace(server.tls.files.ca, mutual.tls.files.ca);
    expect((await fails(stranger.replace("require", "verify-ca"))).code).toBe("AuthFailed");
  });

  test("TLS is used if the server has it, also without sslmode, unless it is disabled", async () => {
    await works(server.url.replace("?sslmode=require", ""));
    const error = await fails(server.url.replace("require", "disable"));
    expect(error).toMatchObject({ code: "AuthFailed", context: { sqlstate: "28000" } });
    await works(open.url);
    expect((await fails(`${open.url}?sslmode=require`)).code).toBe("InvalidArgument");
  });

  test("client certificates", async () => {
    const { ca, clientCert, clientKey } = mutual.tls.files;
    const roots = `${mutual.url}&sslrootcert=${ca}`;
    await works(`${roots}&sslcert=${clientCert}&sslkey=${clientKey}`);
    expect((await fails(roots)).code).toBe("AuthFailed");
  });

  test("wrong passwords are AuthFailed and are not shown", async () => {
    const error = await fails(server.url.replace(/:[^:@]*@/, ":wrong-secret@"));
    expect(error).toMatchObject({ code: "AuthFailed", context: { sqlstate: "28P01" } });
    expect(inspect(error, { showHidden: true, depth: 5 })).not.toContain("wrong-secret");
  });

  test("a missing password is AuthFailed too", async () => {
    const error = await fails(server.url.replace(/:[^:@]*@/, "@"));
    expect(error.code).toBe("AuthFailed");
    expect(error.cause.message).toMatch(/password/);
  });

  test("channel binding", async () => {
    await works(`${server.url}&channel_binding=require`);
    const plain = server.url.replace("require", "disable");
    expect((await fails(`${plain}&channel_binding=require`)).code).toBe("AuthFailed");
  });

  test("options reach the session", async () => {
    await open.psql("DROP TABLE IF EXISTS app.syncguard_locks, app.syncguard_fence_counters");
    await works(`${open.url}?options=-c%20search_path%3Dapp&application_name=mine`);
    expect(await open.psql("SELECT count(*) FROM app.syncguard_fence_counters")).toBe("1");
  });

  test("several hosts: the first one that can be reached", async () => {
    const { port } = open;
    await works(open.url.replace(`127.0.0.1:${port}`, `127.0.0.1:1,localhost:${port}`));
    await works(`postgres://syncguard@127.0.0.1,localhost/syncguard?port=1,${port}`);
    await works(`${open.url}?target_session_attrs=read-write&load_balance_hosts=random`);
  });

  test("a Unix socket, in both ways of writing it", async () => {
    const { socketDirectory: directory, port } = open;
    await works(`postgresql:///syncguard?host=${directory}&port=${port}&user=syncguard`);
    await works(`postgres://syncguard@${encodeURIComponent(directory)}:${port}/syncguard`);
  });

  test("URL objects, createBackend() and createLock()", async () => {
    await works(new URL(server.url));
    const backend = createBackend(open.url);
    expect(backend.capabilities.backend).toBe("postgres");
    expect((await backend.acquire({ key: "by url", ttlMs: 1 })).ok).toBe(true);
    await backend.close();
    const alias = createBackend(open.url.replace("postgres:", "postgresql:"));
    expect(await alias.isLocked({ key: "other" })).toBe(false);
    await alias.close();
    expect(await createLockByUrl(open.url)(() => 1, { key: "lock" })).toBe(1);
    expect(await createLock(open.url)(({ fence }) => fence, { key: "lock" })).toMatch(/2$/);
  });

  test.each([
    "mysql://h/d",
    "postgres://u:secret@h:port/d",
    "postgres://u:secret%zz@h/d",
    "postgres://u:secret@h/d?sslmode=secure",
    "postgres://u:secret@h/d?unknown=1",
    "postgres://u:secret@h/d?sslrootcert=/does/not/exist&sslmode=verify-full",
    "postgres://u:secret@h/d?target_session_attrs=standby",
  ])("%s is refused at once", (url) => {
    let error;
    try {
      createPostgresBackend(url);
    } catch (thrown) {
      error = thrown;
    }
    expect(error.code).toBe("InvalidArgument");
    expect(inspect(error, { showHidden: true, depth: 5 })).not.toContain("secret");
  });
});

describe("a DATABASE_URL of Prisma or pg", () => {
  test("schema is the schema of the tables", async () => {
    await open.psql('DROP SCHEMA IF EXISTS prisma, "my-app" CASCADE; CREATE SCHEMA prisma');
    await open.psql('CREATE SCHEMA "my-app"');
    for (const schema of ["prisma", "my-app"]) {
      await works(`${open.url}?schema=${schema}`);
      const counters = `"${schema}".syncguard_fence_counters`;
      expect(await open.psql(`SELECT count(*) FROM ${counters}`)).toBe("1");
    }
    const names = { tableName: "app.other_locks", fenceTableName: "other_fences" };
    await works(`${open.url}?schema=prisma`, names);
    expect(await open.psql("SELECT count(*) FROM prisma.other_fences")).toBe("1");
    expect(await open.psql("SELECT count(*) FROM app.other_locks")).toBe("0");
  });

  test("a schema that does not exist is reported", async () => {
    const error = await fails(`${open.url}?schema=missing`);
    expect(error).toMatchObject({ code: "InvalidArgument", context: { sqlstate: "3F000" } });
  });

  test("sslmode=no-verify: TLS, whatever the certificate", async () => {
    await works(server.url.replace("require", "no-verify"));
    await works(server.url.replace("sslmode=require", "ssl=no-verify"));
    const stranger = `&sslrootcert=${mutual.tls.files.ca}`;
    await works(server.url.replace("require", "no-verify") + stranger);
    expect((await fails(`${open.url}?sslmode=no-verify`)).code).toBe("InvalidArgument");
  });

  test("sslaccept=strict: a certificate that is verified", async () => {
    const strict = `${server.url}&sslaccept=strict`;
    await works(`${strict}&sslrootcert=${server.tls.files.ca}`);
    expect((await fails(strict)).cause.message).toMatch(/certificate/);
    await works(`${server.url}&sslaccept=accept_invalid_certs`);
    await works(`${open.url}?sslaccept=strict`);
  });

  test("connection_limit is the size of the pool unless the options set it", async () => {
    const connections = async (name, options) => {
      const url = `${open.url}?connection_limit=2&application_name=${name}`;
      const backend = createPostgresBackend(url, options);
      const keys = Array.from({ length: 40 }, (_, n) => `${name}:${n}`);
      const acquiring = keys.map((key) => backend.acquire({ key, ttlMs: 1 }));
      // One connection is for what holders need.
      const lockId = "A".repeat(22);
      const extending = keys.map(() => backend.extend({ lockId, ttlMs: 1 }));
      await Promise.all([...acquiring, ...extending]);
      const count = `SELECT count(*) FROM pg_stat_activity WHERE application_name = '${name}'`;
      const found = Number(await open.psql(count));
      await backend.close();
      return found;
    };
    expect(await connections("limited")).toBe(2);
    expect(await connections("by-options", { poolSize: 1 })).toBe(1);
  });

  test.each([
    ["pgbouncer=true", false],
    ["statement_cache_size=0", false],
    ["pgbouncer=false&statement_cache_size=100", true],
  ])("%s: prepared statements are used: %s", async (query, isPrepared) => {
    const backend = createPostgresBackend(
      `${open.url}?${query}&application_name=${query.length}-long`,
    );
    await backend.isLocked({ key: "k" });
    const last = `SELECT query FROM pg_stat_activity WHERE application_name = '${query.length}-long'`;
    const sent = await open.psql(last);
    await backend.close();
    expect(sent).toMatch(isPrepared ? /^\s*EXECUTE/ : /FROM "syncguard_locks"/);
  });

  test("settings for another library's pool and queries have no effect", async () => {
    await works(
      `${open.url}?pool_timeout=0&socket_timeout=1&max_connection_lifetime=1&statement_timeout=1` +
        "&max_idle_connection_lifetime=1&single_use_connections=true&query_timeout=1&lock_timeout=1" +
        "&idle_in_transaction_session_timeout=1&connect_timeout=15&uselibpqcompat=true" +
        "&gssencmode=disable&channel_binding=prefer",
    );
  });

  test.each([
    ["supa=base-pooler.x", /"supa".* leave it out/],
    ["currentSchema=app", /"currentSchema".* schema=/],
    ["search_path=app", /"search_path".* schema=/],
    ["sslidentity=x.p12", /"sslidentity".* sslkey/],
    ["sslcert=server-ca.pem&sslmode=require", /sslrootcert/],
    ["max=5", /"max".* connection_limit/],
    ["connection_limit=0", /connection_limit/],
    ["sslaccept=maybe", /sslaccept/],
    ["uselibpqcompat=false", /verify-full/],
    ["schema=a%22b", /schema/],
  ])("%s is refused with a way out", (query, message) => {
    expect(() => createPostgresBackend(`${open.url}?${query}`)).toThrow(
      expect.objectContaining({ code: "InvalidArgument", message: expect.stringMatching(message) }),
    );
  });
});

describe("options", () => {
  const given = () => {
    const { host, port, user, password, database } = server;
    return { host, port, user, password, database };
  };

  test("an object, with or without backend options in it", async () => {
    await works({ ...given(), ssl: { ca: server.tls.ca } });
    await works({ ...given(), ssl: { ca: [Buffer.from(server.tls.ca)] } }, { poolSize: 1 });
    await works({ ...given(), ssl: "require", tableName: "mine", fenceTableName: "my_fences" });
    expect(await server.psql("SELECT count(*) FROM my_fences")).toBe("1");
    await works({ url: server.url, password: PASSWORD });
    await works({ connectionString: server.url });
  });

  test("certificates are verified unless rejectUnauthorized is false", async () => {
    expect((await fails({ ...given(), ssl: true })).code).toBe("AuthFailed");
    await works({ ...given(), ssl: { rejectUnauthorized: false } });
    await works({ ...given(), ssl: { ca: server.tls.ca, servername: "localhost" } });
    const wrong = { ...given(), ssl: { ca: server.tls.ca, servername: "wrong.example" } };
    expect((await fails(wrong)).code).toBe("AuthFailed");
    const { cert, key, ca } = mutual.tls;
    const { host, port, user, database } = mutual;
    await works({ host, port, user, database, ssl: { cert, key, ca } });
  });

  test("libpq's environment sets what is left out, and the URL overrides it", async () => {
    const { host, port, user, database } = server;
    vi.stubEnv("PGHOST", host);
    vi.stubEnv("PGPORT", String(port));
    vi.stubEnv("PGUSER", user);
    vi.stubEnv("PGPASSWORD", PASSWORD);
    vi.stubEnv("PGDATABASE", database);
    vi.stubEnv("PGSSLMODE", "verify-full");
    vi.stubEnv("PGSSLROOTCERT", server.tls.files.ca);
    try {
      await works();
      await works({});
      await works("postgres://");
      await works(
        `postgres://${open.user}@127.0.0.1:${open.port}/${open.database}?sslmode=disable`,
      );
      expect((await fails("postgres://someone:else@")).code).toBe("AuthFailed");
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test("the default user is the process's user", async () => {
    const { port } = open;
    const error = await fails({ host: "127.0.0.1", port });
    expect(error).toMatchObject({ code: "AuthFailed" });
    expect(error.cause.message).toContain(userInfo().username);
  });

  test.each([
    [7],
    [true],
    [{ host: {} }],
    [{ ssl: { ca: 7 } }],
    [{ ssl: { ca: "no certificate" } }],
    [{ ssl: { checkServerIdentity: () => {} } }],
    [{ ssl: { cert: "only" } }],
    [undefined, { poolSize: 0 }],
    [undefined, { poolSize: 1.5 }],
    [undefined, { operationTimeoutMs: -1 }],
    [undefined, { connectTimeoutMs: "5" }],
    [undefined, { cleanupInIsLocked: "yes" }],
    [undefined, { prepare: 1 }],
  ])("%j is refused at once", (target, options) => {
    expect(() => createPostgresBackend(target, options)).toThrow(
      expect.objectContaining({ code: "InvalidArgument" }),
    );
  });
});

describe("postgres.js", () => {
  test.each([
    ["a URL", () => [server.url]],
    ["a URL that verifies", () => [server.url.split("?")[0], { ssl: { ca: server.tls.ca } }]],
    ["prefer", () => [server.url.split("?")[0], { ssl: "prefer" }]],
    ["no TLS", () => [open.url]],
    ["several hosts", () => [open.url.replace(`127.0.0.1:`, `127.0.0.1:1,127.0.0.1:`)]],
    ["a socket", () => [{ host: open.socketDirectory, port: open.port, user: "syncguard" }]],
    ["no prepared statements", () => [open.url, { prepare: false }]],
  ])("%s", async (_, args) => {
    const sql = postgres(...args());
    await works(sql);
    await sql.end();
  });

  test("settings of its sessions", async () => {
    await open.psql("DROP TABLE IF EXISTS app.syncguard_locks, app.syncguard_fence_counters");
    const sql = postgres(open.url, { connection: { search_path: "app, pg_temp" } });
    await works(sql);
    expect(await open.psql("SELECT count(*) FROM app.syncguard_fence_counters")).toBe("1");
  });

  test("settings that cannot be copied are refused", () => {
    const socket = () => {};
    expect(() => createPostgresBackend(postgres(open.url, { socket }))).toThrow(
      /socket of its own/,
    );
  });
});

describe("pg", () => {
  test.each([
    ["a connection string", () => ({ connectionString: open.url })],
    [
      "TLS that verifies",
      () => {
        const { host, port, user, password, database } = server;
        return { host, port, user, password, database, ssl: { ca: server.tls.ca } };
      },
    ],
    [
      "TLS that does not",
      () => {
        const connectionString = server.url.split("?")[0];
        return { connectionString, ssl: { rejectUnauthorized: false } };
      },
    ],
    [
      "client certificates",
      () => {
        const { host, port, user, database, tls } = mutual;
        return { host, port, user, database, ssl: { ca: tls.ca, cert: tls.cert, key: tls.key } };
      },
    ],
    [
      "a socket",
      () => {
        const { socketDirectory: host, port, user, database } = open;
        return { host, port, user, database };
      },
    ],
  ])("Pool and Client with %s", async (_, options) => {
    const pool = new pg.Pool(options());
    await works(pool);
    await pool.end();
    await works(new pg.Client(options()));
  });

  test("a certificate with a wrong name is refused", async () => {
    const pool = new pg.Pool({ connectionString: server.url.split("?")[0], ssl: true });
    expect((await fails(pool)).code).toBe("AuthFailed");
  });

  test("settings that cannot be copied are refused", () => {
    const refused = (options) => () => createPostgresBackend(new pg.Pool(options));
    expect(refused({ stream: () => {} })).toThrow(/stream of its own/);
    expect(refused({ ssl: { checkServerIdentity: () => {} } })).toThrow(/checkServerIdentity/);
  });
});
