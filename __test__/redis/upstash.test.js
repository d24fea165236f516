// The client of @upstash/redis as the target: its eval() takes arrays, and reads replies as JSON.

import { inspect } from "node:util";
import { Redis } from "@upstash/redis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { forceRelease, getByKeyRaw, listLocks, lock } from "../../js/index.js";
import { createRedisBackend } from "../../js/redis.js";
import { startUpstash } from "../fixtures/upstash-server.js";
import { ioredis, prefix } from "./open.js";

const ttlMs = 60_000;
let redis, upstash;
beforeAll(async () => {
  redis = ioredis();
  upstash = await startUpstash(redis);
});
afterAll(() => {
  upstash.stop();
  redis.disconnect();
});

const client = (options) => new Redis({ ...upstash, retry: false, ...options });
const open = (options, keyPrefix = prefix()) => createRedisBackend(client(options), { keyPrefix });

async function all(iterator) {
  const found = [];
  for await (const one of iterator) found.push(one);
  return found;
}

test.each([
  ["as it is by default", {}],
  ["without pipelining", { enableAutoPipelining: false }],
  ["without deserialization", { automaticDeserialization: false }],
  ["with plain answers", { responseEncoding: false }],
])("all operations, with a client %s", async (_name, options) => {
  const backend = open(options);
  const held = await backend.acquire({ key: "k", ttlMs });
  expect(held).toMatchObject({ ok: true, fence: "000000000000001" });
  expect(await backend.acquire({ key: "k", ttlMs })).toMatchObject({ ok: false });
  expect(await backend.isLocked({ key: "k" })).toBe(true);
  const { lockId } = held;
  expect(await getByKeyRaw(backend, "k")).toMatchObject({ key: "k", lockId });
  expect(await backend.lookup({ lockId })).toMatchObject({ fence: "000000000000001" });
  expect((await held.extend(ttlMs)).ok).toBe(true);
  expect(await held.release()).toEqual({ ok: true });
  expect(await backend.lookup({ lockId })).toBeNull();
  expect(await held.release()).toEqual({ ok: false });
  expect(await lock(backend, ({ fence }) => fence, { key: "k" })).toBe("000000000000002");

  const shares = [];
  for (const slot of [0, 1]) {
    const share = await backend.acquire({ key: "k", ttlMs: ttlMs - 10_000 * slot, concurrency: 2 });
    expect(share).toMatchObject({ ok: true, slot });
    shares.push(share);
  }
  expect(await backend.acquire({ key: "k", ttlMs, concurrency: 2 })).toMatchObject({ ok: false });
  expect(await backend.lookup({ key: "k" })).toMatchObject({ slot: 0, holders: 2 });
  const listed = await all(listLocks(backend));
  expect(listed.map(({ slot }) => slot).sort()).toEqual([0, 1]);
  for (const share of shares) {
    expect((await share.extend(ttlMs)).ok).toBe(true);
    expect(await share.release()).toEqual({ ok: true });
  }
});

test("keys and fences that look like JSON stay unchanged", async () => {
  const keyPrefix = prefix();
  const backend = open({}, keyPrefix);
  const keys = ['"quoted"', "42", "0042", "null", "true", '{ "a" : 1 }', "[1, 2]", "1e3", "é ☂"];
  for (const key of keys) expect((await backend.acquire({ key, ttlMs })).ok).toBe(true);
  const found = await all(listLocks(backend, { raw: true }));
  expect(found.map(({ key }) => key).sort()).toEqual([...keys].sort());
  for (const key of keys) {
    expect(await getByKeyRaw(backend, key)).toMatchObject({ key });
    expect(await forceRelease(backend, { key })).toEqual({ ok: true });
  }

  await redis.set(`${keyPrefix}:fence:${keyPrefix}:late`, "123456789012345");
  const late = await backend.acquire({ key: "late", ttlMs });
  expect(late).toMatchObject({ ok: true, fence: "123456789012346" });
});

test("a script is sent once, then only its hash", async () => {
  await redis.script("FLUSH");
  const backend = open();
  upstash.commands.length = 0;
  for (const key of ["a", "b", "c"]) await backend.acquire({ key, ttlMs });
  expect(upstash.commands).toEqual(["evalsha", "eval", "evalsha", "evalsha"]);
});

test("errors of the server and of the network, without the command", async () => {
  const keyPrefix = prefix();
  const refused = open({ token: "wrong" }, keyPrefix);
  const away = open({ url: "http://127.0.0.1:1" });
  await redis.lpush(`${keyPrefix}:list`, "x");
  for (const [backend, key, code] of [
    [refused, "my-secret-key", "AuthFailed"],
    [away, "my-secret-key", "ServiceUnavailable"],
    [open({}, keyPrefix), "list", "InvalidArgument"],
  ]) {
    const error = await backend.acquire({ key, ttlMs }).catch((thrown) => thrown);
    expect(error.code).toBe(code);
    expect(inspect(error, { depth: 5 })).not.toContain("my-secret-key");
  }
});

test("an answer without a result is not a lock, and no lock is lost", async () => {
  const silent = new Redis({ request: async () => ({}) });
  const backend = createRedisBackend(silent);
  for (const operation of [
    backend.acquire({ key: "k", ttlMs }),
    backend.isLocked({ key: "k" }),
    backend.lookup({ key: "k" }),
  ]) {
    await expect(operation).rejects.toMatchObject({ code: "Internal" });
  }
});

test("an answer may be an error", async () => {
  const refusing = new Redis({ request: async () => ({ error: "NOPERM no permissions to run" }) });
  const acquired = createRedisBackend(refusing).acquire({ key: "k", ttlMs });
  await expect(acquired).rejects.toMatchObject({ code: "AuthFailed" });
});

test("a native connection is refused", () => {
  expect(() => createRedisBackend(client(), { transport: "native" })).toThrow(/HTTP/);
});
