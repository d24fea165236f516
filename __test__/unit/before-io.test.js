// Wrong input is refused without a round trip or a connection.

import { once } from "node:events";
import { createServer } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createFirestoreBackend } from "../../js/firestore.js";
import { forceRelease, getByKey, hold, lock } from "../../js/index.js";
import { createPostgresBackend } from "../../js/postgres.js";
import { createRedisBackend } from "../../js/redis.js";
import { LOCK_ID, rejection } from "./support.js";

const LIMITS = { connectTimeoutMs: 300, operationTimeoutMs: 300 };
const BACKENDS = [
  ["redis", (port) => createRedisBackend({ port }, LIMITS)],
  [
    "postgres",
    (port) => createPostgresBackend({ host: "127.0.0.1", port, user: "u", ssl: false }, LIMITS),
  ],
  [
    "firestore",
    (port) => createFirestoreBackend({ projectId: "p", emulatorHost: `127.0.0.1:${port}` }, LIMITS),
  ],
];

let server;
let connections = 0;
const sockets = new Set();
beforeAll(async () => {
  server = createServer((socket) => {
    connections += 1;
    sockets.add(socket.on("error", () => {}));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
});
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  server.close();
});

test.each(BACKENDS)("%s: wrong input is refused before anything is sent", async (_, open) => {
  const backend = open(server.address().port);
  connections = 0;
  for (const call of [
    () => backend.acquire({ key: "", ttlMs: 1000 }),
    () => backend.acquire({ key: "k".repeat(513), ttlMs: 1000 }),
    () => backend.acquire({ key: "k\ud800", ttlMs: 1000 }),
    () => backend.isLocked({ key: "\udc00" }),
    () => backend.lookup({ key: "\ud800" }),
    () => getByKey(backend, "\ud800"),
    () => forceRelease(backend, { key: "\ud800" }),
    () => lock(backend, () => {}, { key: "\ud800" }),
    () => hold(backend, { key: "\ud800" }),
    () => backend.acquire({ key: "k", ttlMs: 0 }),
    () => backend.release({ lockId: "short" }),
    () => backend.extend({ lockId: "short", ttlMs: 1000 }),
    () => backend.extend({ lockId: LOCK_ID, ttlMs: -1 }),
    () => backend.isLocked({ key: 7 }),
    () => backend.lookup({ key: "k".repeat(513) }),
    () => backend.lookup({ lockId: `${LOCK_ID}=` }),
  ]) {
    expect(await rejection(call())).toMatchObject({ name: "LockError", code: "InvalidArgument" });
  }
  expect(connections).toBe(0);
  // Valid input does reach the server.
  expect((await rejection(backend.isLocked({ key: "k" }))).code).toBe("NetworkTimeout");
  expect(connections).toBeGreaterThan(0);
  await backend.close();
});
