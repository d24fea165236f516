// A credentialsProvider of node-redis: it is called for each new connection.

import { inspect } from "node:util";
import { createClient, createCluster } from "redis";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { createRedisBackend as create } from "../../js/redis.js";
import { startRedis } from "../../scripts/servers.mjs";
import { rejection } from "../contracts/setup.js";
import { until } from "../fixtures/wait.js";

const ttlMs = 60_000;
let server;
beforeAll(async () => void (server = await startRedis()));
afterAll(() => server.stop());

const opened = [];
function createRedisBackend(...args) {
  opened.push(create(...args));
  return opened.at(-1);
}
afterEach(() => Promise.all(opened.splice(0).map((backend) => backend.close())));

let users = 0;
/** Creates a user whose password can be changed. */
function newUser() {
  const username = `rotating-${(users += 1)}`;
  return {
    username,
    change: (password) =>
      server.cli("acl", "setuser", username, "on", "resetpass", `>${password}`, "~*", "+@all"),
    cut: () => server.cli("client", "kill", "user", username),
  };
}

const once = (credentials) => ({ type: "async-credentials-provider", credentials });
const streaming = (credentials) => ({
  type: "streaming-credentials-provider",
  subscribe: async () => [await credentials(), { dispose: () => {} }],
  onReAuthenticationError: () => {},
});

test.each([
  ["async", once],
  ["streaming", streaming],
])("%s: each new connection asks for the password of the day", async (_, provider) => {
  const { username, change, cut } = newUser();
  let password = "one";
  let calls = 0;
  const credentialsProvider = provider(async () => {
    calls += 1;
    return { username, password };
  });
  await change(password);
  const { hostname, port } = new URL(server.url);
  const client = createClient({ socket: { host: hostname, port }, credentialsProvider });
  const backend = createRedisBackend(client, { keyPrefix: username });
  const held = await backend.acquire({ key: "k", ttlMs });
  expect(held.ok).toBe(true);
  for (const next of ["two", "three"]) {
    const before = calls;
    password = next;
    await change(next);
    await cut();
    // A request over a broken connection fails. The next operation makes a new connection.
    await until(
      () =>
        backend.isLocked({ key: "k" }).then(
          () => true,
          () => false,
        ),
      "an operation over a new connection",
    );
    expect(calls).toBeGreaterThan(before);
  }
  expect(await held.release()).toEqual({ ok: true });
});

test("a wrong password is AuthFailed, and never printed", async () => {
  const { username, change } = newUser();
  await change("right");
  const { hostname, port } = new URL(server.url);
  const credentialsProvider = once(async () => ({ username, password: "hunter2" }));
  const client = createClient({ socket: { host: hostname, port }, credentialsProvider });
  const backend = createRedisBackend(client);
  const error = await rejection(backend.acquire({ key: "k", ttlMs }));
  expect(error.code).toBe("AuthFailed");
  expect(inspect(error, { depth: 9 })).not.toContain("hunter2");
});

test("an error of the provider is the cause, and not printed", async () => {
  const { hostname, port } = new URL(server.url);
  const mine = new Error("token hunter2 has expired");
  const credentialsProvider = once(() => Promise.reject(mine));
  const client = createClient({ socket: { host: hostname, port }, credentialsProvider });
  const backend = createRedisBackend(client);
  const error = await rejection(backend.acquire({ key: "k", ttlMs }));
  expect(error.code).toBe("AuthFailed");
  expect(error.context.cause).toBe(mine);
  expect(error.message).not.toContain("hunter2");
});

test("a provider that does not answer is reported after connectTimeoutMs", async () => {
  const { hostname, port } = new URL(server.url);
  const credentialsProvider = once(() => new Promise(() => {}));
  const client = createClient({ socket: { host: hostname, port }, credentialsProvider });
  const backend = createRedisBackend(client, { connectTimeoutMs: 300 });
  const error = await rejection(backend.acquire({ key: "k", ttlMs }));
  expect(error.code).toBe("NetworkTimeout");
  expect(error.message).toContain("credentials did not answer in time");
});

test("a cluster client's provider is read, and known credentials come first", () => {
  const url = "redis://127.0.0.1:1";
  const credentialsProvider = once(async () => ({ password: "p" }));
  createRedisBackend(createCluster({ rootNodes: [{ url }], defaults: { credentialsProvider } }));
  // node-redis turns these into a provider.
  createRedisBackend(createClient({ url, username: "u", password: "p" }));
});
