// The targets that createRedisBackend() accepts and refuses.

import Redis from "ioredis";
import Redis5 from "ioredis5";
import { createClient, createClientPool, createCluster, createSentinel } from "redis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startRedis, startRedisCluster, startRedisSentinel } from "../../scripts/servers.mjs";
import { createLock, createRedisBackend } from "../../js/redis.js";
import { readTarget } from "../../js/targets/redis/target.js";
import { createBackend } from "../fixtures/api.js";
import { ioredis, prefix } from "./open.js";

const lazy = { lazyConnect: true };
const config = (target, options) => JSON.parse(JSON.stringify(readTarget(target, options).config));
const server = (host, port) => ({ kind: "server", node: { host, port } });

describe("reads targets", () => {
  const LOCAL = { deployment: server("127.0.0.1", 6379), login: { db: 0 }, clientKeyPrefix: "" };

  test.each([
    ["a URL", "redis://example.com", { deployment: server("example.com", 6379) }],
    [
      "a URL with everything",
      "rediss://us%40er:p%2Fw@example.com:7000/3?keyPrefix=app&connectTimeoutMs=10&family=6",
      {
        deployment: server("example.com", 7000),
        login: { username: "us@er", password: "p/w", db: 3 },
        tls: {},
        family: 6,
        keyPrefix: "app",
        connectTimeoutMs: 10,
      },
    ],
    ["an IPv6 URL", "redis://[::1]:7000", { deployment: server("::1", 7000) }],
    ["a URL object", new URL("redis://h:1/2"), { deployment: server("h", 1), login: { db: 2 } }],
    ["a Valkey URL", "valkeys://h", { deployment: server("h", 6379), tls: {} }],
    [
      "a Unix socket",
      "unix:/run/redis.sock?db=2",
      { deployment: { kind: "server", node: { path: "/run/redis.sock" } }, login: { db: 2 } },
    ],
    [
      "a Unix socket with a login",
      "unix://u:p@/run/redis.sock",
      {
        deployment: { kind: "server", node: { path: "/run/redis.sock" } },
        login: { username: "u", password: "p", db: 0 },
      },
    ],
    ["options", { host: "h", port: 1 }, { deployment: server("h", 1) }],
    [
      "options with a URL",
      { url: "redis://u@h:1/2", password: "p" },
      { deployment: server("h", 1), login: { username: "u", password: "p", db: 2 } },
    ],
    [
      "options for a cluster",
      {
        cluster: ["a:1", { host: "b" }, "rediss://u:p@c:3"],
        natMap: { "x:1": { host: "y", port: 2 } },
      },
      {
        deployment: {
          kind: "cluster",
          nodes: [
            { host: "a", port: 1 },
            { host: "b", port: 6379 },
            { host: "c", port: 3 },
          ],
          natMap: { "x:1": { host: "y", port: 2 } },
        },
      },
    ],
    [
      "options for sentinels",
      { sentinels: [{ host: "a" }], name: "m", password: "p", sentinelPassword: "q" },
      {
        deployment: {
          kind: "sentinel",
          sentinels: [{ host: "a", port: 26379 }],
          name: "m",
          login: { password: "q" },
          natMap: {},
        },
        login: { password: "p", db: 0 },
      },
    ],
  ])("%s", (_, target, expected) => {
    expect(config(target)).toEqual({ ...LOCAL, ...expected });
  });

  test("without a target REDIS_URL is used, and options may replace it", () => {
    const url = process.env.REDIS_URL;
    try {
      process.env.REDIS_URL = "redis://from.env:7";
      expect(config().deployment).toEqual(server("from.env", 7));
      expect(config({ keyPrefix: "p" })).toMatchObject({
        deployment: server("from.env", 7),
        keyPrefix: "p",
      });
      delete process.env.REDIS_URL;
      expect(config().deployment).toEqual(server("127.0.0.1", 6379));
    } finally {
      process.env.REDIS_URL = url;
    }
  });

  test("options override the target", () => {
    const target = { host: "h", keyPrefix: "a", operationTimeoutMs: 5 };
    expect(config(target, { keyPrefix: "b", operationTimeoutMs: undefined })).toMatchObject({
      keyPrefix: "b",
      operationTimeoutMs: 5,
    });
  });

  describe.each([
    ["ioredis 6", Redis],
    ["ioredis 5", Redis5],
  ])("%s", (_, Client) => {
    test("a client", () => {
      const client = new Client("redis://u:p@h:7/2", { ...lazy, keyPrefix: "app:", family: 4 });
      expect(config(client)).toEqual({
        deployment: server("h", 7),
        login: { username: "u", password: "p", db: 2 },
        family: 4,
        clientKeyPrefix: "app:",
      });
      client.disconnect();
    });

    test("a client with TLS", () => {
      const tls = { ca: Buffer.from("CA"), servername: "name", rejectUnauthorized: false };
      const client = new Client({ ...lazy, host: "h", tls, connectionName: "app" });
      expect(config(client)).toMatchObject({
        deployment: server("h", 6379),
        login: { clientName: "app" },
        tls: { ca: ["CA"], servername: "name", rejectUnauthorized: false },
      });
      expect(config(new Client("rediss://h", lazy))).toMatchObject({ tls: {} });
      client.disconnect();
    });

    test("a client for a Unix socket", () => {
      const client = new Client("/run/redis.sock", lazy);
      expect(config(client).deployment).toEqual({
        kind: "server",
        node: { path: "/run/redis.sock" },
      });
    });

    test("a client for sentinels", () => {
      const client = new Client({
        ...lazy,
        sentinels: [{ host: "s", port: 1 }],
        name: "m",
        sentinelUsername: "su",
        sentinelPassword: "sp",
        sentinelTLS: { ca: "A" },
        enableTLSForSentinelMode: true,
        tls: { ca: "B" },
        natMap: { "a:1": { host: "b", port: 2 } },
      });
      expect(config(client)).toMatchObject({
        deployment: {
          kind: "sentinel",
          sentinels: [{ host: "s", port: 1 }],
          name: "m",
          login: { username: "su", password: "sp" },
          tls: { ca: ["A"] },
          natMap: { "a:1": { host: "b", port: 2 } },
        },
        tls: { ca: ["B"] },
      });
    });

    test("a cluster client", () => {
      const client = new Client.Cluster([{ host: "a", port: 1 }, "redis://b:2", 3], {
        ...lazy,
        dnsLookup: (address, callback) => callback(null, address),
        redisOptions: { username: "u", password: "p", tls: {}, keyPrefix: "x:" },
      });
      expect(config(client)).toEqual({
        deployment: {
          kind: "cluster",
          nodes: [
            { host: "a", port: 1 },
            { host: "b", port: 2 },
            { host: "127.0.0.1", port: 3 },
          ],
          natMap: {},
        },
        login: { username: "u", password: "p", db: 0 },
        tls: {},
        clientKeyPrefix: "x:",
      });
    });

    test.each([
      ["a custom Connector", () => new Client({ ...lazy, Connector: class {} })],
      ["role: slave", () => new Client({ ...lazy, sentinels: [{}], name: "m", role: "slave" })],
      [
        "a natMap function",
        () => new Client({ ...lazy, sentinels: [{}], name: "m", natMap: () => null }),
      ],
      ["useSRVRecords", () => new Client.Cluster([{}], { ...lazy, useSRVRecords: true })],
      ["a custom dnsLookup", () => new Client.Cluster([{}], { ...lazy, dnsLookup: () => {} })],
      [
        "checkServerIdentity",
        () => new Client({ ...lazy, tls: { checkServerIdentity: () => undefined } }),
      ],
      ["a pfx", () => new Client({ ...lazy, tls: { pfx: Buffer.from("x") } })],
    ])("%s cannot be taken over, and it says so", (_, make) => {
      const client = make();
      expect(() => createRedisBackend(client)).toThrow(
        expect.objectContaining({
          code: "InvalidArgument",
          message: expect.stringContaining('transport: "client"'),
        }),
      );
    });
  });

  describe("node-redis", () => {
    test("a client", () => {
      const client = createClient({
        url: "rediss://u:p@h:7/2",
        name: "app",
        socket: { ca: "CA", servername: "n", reconnectStrategy: 5, keepAlive: true },
      });
      expect(config(client)).toEqual({
        deployment: server("h", 7),
        login: { username: "u", password: "p", db: 2, clientName: "app" },
        tls: { ca: ["CA"], servername: "n" },
        clientKeyPrefix: "",
      });
      expect(config(createClient({ socket: { path: "/s" } })).deployment.node).toEqual({
        path: "/s",
      });
      expect(config(createClient()).deployment).toEqual(server("localhost", 6379));
    });

    test("a cluster client", () => {
      const client = createCluster({
        rootNodes: [{ url: "redis://a:1" }, { socket: { host: "b", port: 2 } }],
        defaults: { username: "u", password: "p" },
        nodeAddressMap: { "x:1": { host: "y", port: 2 } },
      });
      expect(config(client)).toMatchObject({
        deployment: {
          kind: "cluster",
          nodes: [
            { host: "a", port: 1 },
            { host: "b", port: 2 },
          ],
          natMap: { "x:1": { host: "y", port: 2 } },
        },
        login: { username: "u", password: "p" },
      });
    });

    test.each([
      [
        "a sentinel client",
        () => createSentinel({ name: "m", sentinelRootNodes: [{ host: "h", port: 1 }] }),
      ],
      ["a pool", () => createClientPool({})],
    ])("%s cannot be taken over, and it says so", (_, make) => {
      const client = make();
      expect(() => createRedisBackend(client)).toThrow(
        expect.objectContaining({
          code: "InvalidArgument",
          message: expect.stringContaining('transport: "client"'),
        }),
      );
    });
  });

  test.each([
    ["a number", 5],
    ["an array", []],
    ["another scheme", "http://h"],
    ["no URL", "redis"],
    ["a database that is no number", "redis://h/x"],
    ["an unknown URL parameter", "redis://h?passwrd=secret"],
    ["a misspelt option", { host: "h", pasword: "secret" }],
    ["a port that is none", { port: 70_000 }],
    ["a password that is none", { host: "h", password: 5 }],
    ["two places", { host: "h", path: "/s" }],
    ["no sentinels", { sentinels: [], name: "m" }],
    ["sentinels without a name", { sentinels: [{}] }],
    ["no nodes", { cluster: [] }],
    ["a database of a cluster", { cluster: ["h:1"], db: 1 }],
    ["half a tag for a cluster", { cluster: ["h:1"], keyPrefix: "a{" }],
    ["tls that is none", { host: "h", tls: "yes" }],
    ["a certificate without a key", { host: "h", tls: { cert: "x" } }],
    ["a CA that is none", { host: "h", tls: { ca: "secret" } }],
    ["a prefix of fence counters", { keyPrefix: "app:fence" }],
    ["a timeout that is none", { operationTimeoutMs: -1 }],
    ["cleanupInIsLocked that is none", { cleanupInIsLocked: "yes" }],
    ["a transport that is none", { transport: "pigeon" }],
    ["the client of a URL", { url: "redis://h", transport: "client" }],
    ["the native connection of a mock", { eval() {} }, { transport: "native" }],
    ["a misspelt backend option", "redis://h", { prefix: "x" }],
  ])("%s is refused", (_, target, options) => {
    let error;
    try {
      createRedisBackend(target, options);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toMatchObject({ name: "LockError", code: "InvalidArgument" });
    expect(`${error.message} ${error.cause?.message}`).not.toContain("secret");
  });
});

describe("connects with the settings that it read", () => {
  const acl = { username: "locker", password: "p@ss:w/rd" };
  let secured, sentinel, cluster;
  beforeAll(async () => {
    [secured, sentinel, cluster] = await Promise.all([
      startRedis({ tls: true, acl }),
      startRedisSentinel({ acl }),
      startRedisCluster({ acl }),
    ]);
  }, 60_000);
  afterAll(() => Promise.all([secured, sentinel, cluster].map((one) => one.stop())));

  const lockThrough = async (client, options) => {
    const backend = createRedisBackend(client, { keyPrefix: prefix(), ...options });
    const held = await backend.acquire({ key: "k", ttlMs: 10_000 });
    expect(held).toMatchObject({ ok: true, fence: "000000000000001" });
    expect(await held.release()).toEqual({ ok: true });
    await backend.close();
  };
  const quiet = (client) => (client.on("error", () => {}), client);

  describe.each([
    ["ioredis 6", Redis],
    ["ioredis 5", Redis5],
  ])("%s", (_, Client) => {
    test("TLS and ACL", async () => {
      const client = quiet(
        new Client(secured.url, { ...lazy, tls: { ca: secured.tls.ca }, db: 3 }),
      );
      await lockThrough(client);
      // The client itself was not used.
      expect(client.status).toBe("wait");
      client.disconnect();
    });

    test("sentinels", async () => {
      const sentinels = sentinel.sentinels.map(({ host, port }) => ({ host, port }));
      const client = quiet(new Client({ ...lazy, ...acl, sentinels, name: sentinel.name }));
      await lockThrough(client);
      client.disconnect();
    });

    test.each(["native", "client"])("a cluster, transport %s", async (transport) => {
      const nodes = cluster.nodes.map(({ host, port }) => ({ host, port }));
      const client = quiet(new Client.Cluster(nodes, { redisOptions: acl, lazyConnect: true }));
      await lockThrough(client, { transport });
      client.disconnect();
    });
  });

  test("node-redis", async () => {
    const client = quiet(
      createClient({ url: secured.url, socket: { tls: true, ca: secured.tls.ca } }),
    );
    await lockThrough(client);
    await client.connect();
    await lockThrough(client, { transport: "client" });
    client.destroy();
  });

  test("a node-redis cluster", async () => {
    const client = quiet(
      createCluster({ rootNodes: cluster.urls.map((url) => ({ url })), defaults: acl }),
    );
    await lockThrough(client);
    await client.connect();
    await lockThrough(client, { transport: "client" });
    client.destroy();
  });
});

test("a client's keyPrefix: both transports use the keys that the client would", async () => {
  const client = ioredis(process.env.REDIS_URL, { keyPrefix: `${prefix()}:` });
  const keyPrefix = prefix();
  const native = createRedisBackend(client, { keyPrefix });
  const through = createRedisBackend(client, { keyPrefix, transport: "client" });
  const held = await native.acquire({ key: "k", ttlMs: 10_000 });
  expect(await client.exists(`${keyPrefix}:k`)).toBe(1);
  expect((await through.acquire({ key: "k", ttlMs: 10_000 })).ok).toBe(false);
  expect(await through.release({ lockId: held.lockId })).toEqual({ ok: true });
  expect((await through.acquire({ key: "k", ttlMs: 10_000 })).fence).toBe("000000000000002");
  expect(await native.isLocked({ key: "k" })).toBe(true);
  await native.close();
  client.disconnect();
});

test("a mock with eval() gets the scripts, their keys and arguments", async () => {
  const calls = [];
  // Mocks of programs answer in the documented form.
  const replies = [[1, "000000000000007", 1_700_000_000_000], 1, [1, 1_700_000_009_000], 1, null];
  const mock = { eval: (...args) => (calls.push(args), replies.shift()) };
  const backend = createRedisBackend(mock);
  const held = await backend.acquire({ key: "k", ttlMs: 5000 });
  expect(held).toMatchObject({
    ok: true,
    fence: "000000000000007",
    expiresAtMs: 1_700_000_000_000,
  });
  expect(await backend.isLocked({ key: "k" })).toBe(true);
  expect(await held.extend(9000)).toEqual({ ok: true, expiresAtMs: 1_700_000_009_000 });
  expect(await held.release()).toEqual({ ok: true });
  expect(await backend.lookup({ key: "k" })).toBe(null);
  expect(calls[0].slice(1)).toEqual([
    3,
    "syncguard:k",
    `syncguard:id:${held.lockId}`,
    "syncguard:fence:syncguard:k",
    held.lockId,
    "5000",
    "1000",
    "syncguard:k",
    "k",
  ]);
  const index = `syncguard:id:${held.lockId}`;
  expect(calls[2].slice(1)).toEqual([1, index, held.lockId, "1000", "9000"]);
  expect(calls[3].slice(1)).toEqual([1, index, held.lockId, "1000"]);
  for (const [script] of calls) expect(script).toContain("redis.call");
});

test("errors of a client are mapped, without the command's arguments", async () => {
  const fail = (error) => ({ eval: () => Promise.reject(error) });
  const reply = (text) =>
    Object.assign(new Error(text), { name: "ReplyError", command: { args: ["k"] } });
  for (const [error, code] of [
    [reply("WRONGTYPE Operation against a key"), "InvalidArgument"],
    [reply("NOAUTH Authentication required."), "AuthFailed"],
    [reply("OOM command not allowed"), "RateLimited"],
    [reply("ERR something"), "Internal"],
    [
      Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" }),
      "ServiceUnavailable",
    ],
    [new Error("Connection is closed."), "ServiceUnavailable"],
    [new Error("Command timed out"), "NetworkTimeout"],
    [new Error("whatever"), "Internal"],
    ["not even an error", "Internal"],
  ]) {
    const backend = createRedisBackend(fail(error));
    const thrown = await backend.isLocked({ key: "secret-key" }).catch((caught) => caught);
    expect(thrown).toMatchObject({ name: "LockError", code });
    expect(JSON.stringify(thrown.cause ?? {})).not.toContain("args");
    expect(thrown.message).not.toContain("secret-key");
  }
  const hanging = createRedisBackend(
    { eval: () => new Promise(() => {}) },
    { operationTimeoutMs: 20 },
  );
  await expect(hanging.isLocked({ key: "k" })).rejects.toMatchObject({ code: "NetworkTimeout" });
});

test("createLock and createBackend", async () => {
  const keyPrefix = prefix();
  const lock = createLock(process.env.REDIS_URL, { keyPrefix });
  const backend = createBackend(process.env.REDIS_URL, { keyPrefix });
  const inside = await lock(() => backend.isLocked({ key: "k" }), { key: "k" });
  expect(inside).toBe(true);
  expect(backend.capabilities).toEqual({
    backend: "redis",
    supportsFencing: true,
    timeAuthority: "server",
  });
  await backend.close();
});

test("a waiter over a client is not notified of a release", async () => {
  const native = createRedisBackend("redis://127.0.0.1:1");
  const overClient = createRedisBackend({ eval: async () => 0 });
  expect(native.capabilities.waitsBy).toBe("notification");
  expect(overClient.capabilities.waitsBy).toBe("polling");
  await Promise.all([native.close(), overClient.close()]);
});
