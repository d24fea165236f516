// A server that cannot be reached, or is none: which code, in which time, and where it was looked for.

import { once } from "node:events";
import { createServer } from "node:net";
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { freePort } from "../../scripts/servers.mjs";
import { rejection } from "../contracts/setup.js";
import { LockError, lock } from "../fixtures/api.js";
import { NOISE_MS } from "../fixtures/wait.js";
import { open } from "./open.js";

const QUICK = { connectTimeoutMs: 500, operationTimeoutMs: 500 };

/** The error of an operation, which must have come within the limits. */
async function failure(backend, operation = () => backend.isLocked({ key: "k" })) {
  const since = performance.now();
  const error = await rejection(operation());
  expect(performance.now() - since).toBeLessThan(QUICK.connectTimeoutMs + NOISE_MS);
  return error;
}

/** Everything of an error that could reach a log, its causes included. */
const shown = (error) =>
  [error, error.cause, error.cause?.cause]
    .map((each) => `${inspect(each, { depth: 9, showHidden: true })} ${JSON.stringify(each)}`)
    .join(" ");

test("nobody listens: ServiceUnavailable within connectTimeoutMs, and where", async () => {
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
    expect(error.message).toContain(`127.0.0.1:${port}`);
  }
  await backend.close();
});

test("nobody listens, and the wall of the wait is nearer: the store did not answer, and where", async () => {
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
  expect(error.message).not.toContain("another holds it");
  expect(error.message).toContain(`127.0.0.1:${port}`);
  expect(error.cause).toBeInstanceOf(LockError);
  expect(error.cause.code).toBe("ServiceUnavailable");
  expect(error.cause.message).toContain(`127.0.0.1:${port}`);
  expect(shown(error)).not.toMatch(/s3cret|locker/);
  expect(`${error.message} ${error.cause.message}`).not.toContain("secret-key");
  await backend.close();
});

test("a socket that is not there is named", async () => {
  const backend = open({ target: "unix:/nowhere/redis.sock", ...QUICK });
  const error = await failure(backend);
  expect(error.code).toBe("ServiceUnavailable");
  expect(error.message).toContain("/nowhere/redis.sock");
  await backend.close();
});

test("a name that does not resolve is ServiceUnavailable, and named", async () => {
  const backend = open({ target: "redis://redis.invalid:6379", ...QUICK });
  const error = await failure(backend);
  expect(error.code).toBe("ServiceUnavailable");
  expect(error.message).toContain("redis.invalid:6379");
  await backend.close();
});

/** Somebody who listens and is no Redis. */
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

test("a server that accepts and says nothing is a NetworkTimeout", async () => {
  const { port, stop } = await listener(() => {});
  const backend = open({ target: `redis://127.0.0.1:${port}`, ...QUICK });
  const error = await failure(backend);
  expect(error.code).toBe("NetworkTimeout");
  expect(error.message).toContain(`127.0.0.1:${port}`);
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
  expect(shown(error)).not.toMatch(/s3cret|locker/);
  await backend.close();
  stop();
});
