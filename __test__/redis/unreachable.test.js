// A server that cannot be reached, or is another program: the code, the time, and the address in the message.

import { once } from "node:events";
import { createServer } from "node:net";
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { freePort, startRedis } from "../../scripts/servers.mjs";
import { rejection } from "../contracts/setup.js";
import { LockError, lock } from "../fixtures/api.js";
import { NOISE_MS } from "../fixtures/wait.js";
import { open } from "./open.js";

const QUICK = { connectTimeoutMs: 500, operationTimeoutMs: 500 };

/** Returns the error of an operation, which must come within the limits. */
async function failure(backend, operation = () => backend.isLocked({ key: "k" })) {
  const since = performance.now();
  const error = await rejection(operation());
  expect(performance.now() - since).toBeLessThan(QUICK.connectTimeoutMs + NOISE_MS);
  return error;
}

/** Returns all text of an error that could reach a log, including its causes. */
const shown = (error) =>
  [error, error.cause, error.cause?.cause]
    .map((each) => `${inspect(each, { depth: 9, showHidden: true })} ${JSON.stringify(each)}`)
    .join(" ");

test("nobody listens: ServiceUnavailable within connectTimeoutMs, with the address and the reason", async () => {
  const port = await freePort();
  const backend = open({ target: `redis://127.0.0.1:${port}`, ...QUICK });
  for (const operation of [
    () => backend.acquire({ key: "k", ttlMs: 1000 }),
    () => backend.isLocked({ key: "k" }),
    () => backend.lookup({ key: "k" }),
    () => backend.release({ lockId: "A".repeat(22) }),
  ]) {
    const error = await failure(backend, operation);
    expect(error.code).toBe("ServiceUnavailable");
    expect(error.message).toContain(`127.0.0.1:${port}: connection refused. `);
    expect(error.message).toMatch(/Gave up after \d+(\.\d s| ms) \(connectTimeoutMs\)$/);
    expect(String(error.cause.message)).toMatch(/refused/i);
  }
  await backend.close();
});

test("nobody listens, and the wait ends earlier: the message has the address", async () => {
  const port = await freePort();
  const target = `redis://locker:s3cret-w0rd@127.0.0.1:${port}`;
  const backend = open({ target });
  const since = performance.now();
  const error = await rejection(
    lock(backend, () => "entered", { key: "secret-key", acquisition: { timeoutMs: 400 } }),
  );
  const took = performance.now() - since;
  expect(took).toBeGreaterThanOrEqual(390);
  expect(took).toBeLessThan(400 + NOISE_MS);
  expect(error).toBeInstanceOf(LockError);
  expect(error.code).toBe("AcquisitionTimeout");
  expect(error.message).toContain("Failed to acquire lock");
  expect(error.message).toContain("did not answer");
  expect(error.message).not.toContain("another holder");
  expect(error.message).toContain(`127.0.0.1:${port}: connection refused. `);
  expect(error.message).toMatch(/Trying for \d/);
  expect(error.cause).toBeInstanceOf(LockError);
  expect(error.cause.code).toBe("ServiceUnavailable");
  expect(error.cause.message).toContain(`127.0.0.1:${port}`);
  expect(shown(error)).not.toMatch(/s3cret|locker/);
  expect(`${error.message} ${error.cause.message}`).not.toContain("secret-key");
  await backend.close();
});

test("a socket that does not exist is named", async () => {
  const backend = open({ target: "unix:/nowhere/redis.sock", ...QUICK });
  const error = await failure(backend);
  expect(error.code).toBe("ServiceUnavailable");
  expect(error.message).toContain("/nowhere/redis.sock: there is no such socket file");
  await backend.close();
});

test("a name that does not resolve is ServiceUnavailable, and named", async () => {
  const backend = open({ target: "redis://redis.invalid:6379", ...QUICK });
  const error = await failure(backend);
  expect(error.code).toBe("ServiceUnavailable");
  expect(error.message).toContain("redis.invalid:6379: host not found");
  await backend.close();
});

/** Starts a program that listens and is not Redis. */
async function listener(onConnection) {
  const sockets = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    sockets.push(socket);
    onConnection(socket);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address();
  const stop = () => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  };
  return { port, stop };
}

test("a server that accepts connections and never answers is a NetworkTimeout", async () => {
  const { port, stop } = await listener(() => {});
  const backend = open({ target: `redis://127.0.0.1:${port}`, ...QUICK });
  const error = await failure(backend);
  expect(error.code).toBe("NetworkTimeout");
  expect(error.message).toContain(`127.0.0.1:${port}: it accepts connections but does not answer`);
  await backend.close();
  stop();
});

test.each([
  ["connectTimeoutMs", { connectTimeoutMs: 300, operationTimeoutMs: 20_000 }],
  ["operationTimeoutMs", { connectTimeoutMs: 20_000, operationTimeoutMs: 300 }],
])("a server that says nothing: the error names the shorter limit, %s", async (name, limits) => {
  const { port, stop } = await listener(() => {});
  const backend = open({ target: `redis://127.0.0.1:${port}`, ...limits });
  const error = await rejection(backend.isLocked({ key: "k" }));
  expect(error.code).toBe("NetworkTimeout");
  expect(error.message).toMatch(new RegExp(`Gave up after \\d+(\\.\\d s| ms) \\(${name}\\)$`));
  await backend.close();
  stop();
});

test.each([
  ["hangs up at once", (socket) => socket.end()],
  ["hangs up when it is spoken to", (socket) => socket.once("data", () => socket.end())],
  ["resets", (socket) => socket.once("data", () => socket.resetAndDestroy())],
])("a server that %s during the handshake is ServiceUnavailable", async (_, onConnection) => {
  const { port, stop } = await listener(onConnection);
  const target = `redis://locker:s3cret-w0rd@127.0.0.1:${port}`;
  const backend = open({ target, ...QUICK });
  const error = await failure(backend);
  expect(error.code).toBe("ServiceUnavailable");
  expect(error.message).toContain(`127.0.0.1:${port}`);
  expect(error.message).toMatch(/closed the connection during the handshake\. Is this a TLS port/);
  expect(shown(error)).not.toMatch(/s3cret|locker/);
  await backend.close();
  stop();
});

/** Returns the error of a target that must fail long before `connectTimeoutMs`, and its description. */
async function rejected(target) {
  const backend = open({ target, connectTimeoutMs: 60_000, operationTimeoutMs: 60_000 });
  const since = performance.now();
  const error = await rejection(backend.isLocked({ key: "k" }));
  expect(performance.now() - since).toBeLessThan(30_000);
  await backend.close();
  return error;
}

test("TLS on one side only, and an untrusted certificate, are recognised at once", async () => {
  const [plain, secured] = await Promise.all([startRedis(), startRedis({ tls: true })]);
  const { host, port } = secured;
  const { ca } = secured.tls;

  const wantsTls = await rejected(`redis://locker:s3cret-w0rd@${host}:${port}`);
  expect(wantsTls.code).toBe("InvalidArgument");
  expect(wantsTls.message).toContain(`${host}:${port}: this is a TLS port`);
  expect(wantsTls.message).toContain("rediss:");
  expect(shown(wantsTls)).not.toMatch(/s3cret|locker/);

  const noTls = await rejected(`rediss://locker:s3cret-w0rd@${plain.host}:${plain.port}`);
  expect(noTls.code).toBe("InvalidArgument");
  expect(noTls.message).toContain(`${plain.host}:${plain.port}: this is not a TLS port`);
  expect(shown(noTls)).not.toMatch(/s3cret|locker/);

  for (const [tls, expected] of [
    [true, /certificate is not trusted, as its authority is unknown.* tls\.ca/],
    [{ ca, servername: "other.example" }, /certificate is for another name.* tls\.servername/],
  ]) {
    const error = await rejected({ host, port, tls });
    expect(error.code).toBe("AuthFailed");
    expect(error.message).toMatch(expected);
    expect(error.message).toContain(`${host}:${port}`);
  }
  await Promise.all([plain.stop(), secured.stop()]);
});

test.each([
  [Object.assign(new Error("connect"), { code: "ECONNREFUSED" }), "connection refused"],
  [new TypeError("fetch failed", { cause: { code: "ENOTFOUND" } }), "host not found"],
  [new AggregateError([{ code: "ECONNREFUSED" }], "all failed"), "connection refused"],
  [Object.assign(new Error("no"), { code: "CERT_HAS_EXPIRED" }), "certificate has expired"],
])("a client that cannot connect: %s is told in words", async (cause, expected) => {
  const backend = open({ target: { eval: () => Promise.reject(cause) } });
  const error = await rejection(backend.isLocked({ key: "k" }));
  expect(error.code).toBe("ServiceUnavailable");
  expect(error.message).toContain(expected);
  await backend.close();
});
