// A server at its memory limit that evicts nothing, as `doctor` recommends. Locks that are held can be
// kept and released.

import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { startRedis } from "../../scripts/servers.mjs";
import { rejection } from "../contracts/setup.js";
import { hold, lock } from "../fixtures/api.js";
import { until } from "../fixtures/wait.js";
import { open, prefix } from "./open.js";

let server, backend;
beforeAll(async () => {
  server = await startRedis({ config: { "maxmemory-policy": "noeviction" } });
});
afterAll(() => server.stop());
beforeEach(async () => {
  await server.cli("config", "set", "maxmemory", "0");
  backend = open({ target: server.url, keyPrefix: prefix() });
  return () => backend.close();
});

const fillUp = () => server.cli("config", "set", "maxmemory", "1");
const clear = () => server.cli("config", "set", "maxmemory", "0");

test("heartbeats keep a lock, and it can be released", async () => {
  const ttlMs = 2000;
  const held = await hold(backend, { key: "k", ttlMs, autoExtend: true });
  await fillUp();
  const { expiresAtMs } = held;
  await until(() => held.expiresAtMs > expiresAtMs + ttlMs, "heartbeats past the first TTL");
  expect(held.isHeld()).toBe(true);
  expect(held.signal.aborted).toBe(false);
  expect(await backend.isLocked({ key: "k" })).toBe(true);
  expect(await held.release()).toEqual({ ok: true });
  expect(await backend.isLocked({ key: "k" })).toBe(false);
});

test("an acquire reports the memory limit, and leaves nothing behind", async () => {
  await fillUp();
  const error = await rejection(backend.acquire({ key: "k", ttlMs: 1000 }));
  expect(error.code).toBe("RateLimited");
  expect(error.message).toContain("maxmemory");
  await clear();
  expect((await backend.acquire({ key: "k", ttlMs: 1000 })).fence).toBe("000000000000001");
});

test("many locks are released at once, and the next waiter is notified", async () => {
  const keys = Array.from({ length: 48 }, (_, index) => `k:${index}`);
  // In rounds, so that the requests share scripts.
  for (let round = 0; round < 5; round++) {
    const held = await Promise.all(keys.map((key) => backend.acquire({ key, ttlMs: 60_000 })));
    const { expiresAtMs } = held[0];
    const entered = lock(backend, () => "entered", { key: keys[0] }).catch(({ code }) => code);
    await fillUp();
    const extended = await Promise.all(held.map((each) => each.extend(90_000)));
    for (const each of extended) expect(each.expiresAtMs).toBeGreaterThan(expiresAtMs);
    const released = await Promise.all(held.map((each) => each.release()));
    expect(released).toEqual(keys.map(() => ({ ok: true })));
    // A release that shares the script of an acquire makes room for it.
    expect(["entered", "RateLimited"]).toContain(await entered);
    await clear();
  }
});
