// Lock managers of several processes share the locks of a store.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { lock } from "../../js/index.js";
import { createLockManager } from "../../js/web-locks.js";
import { tables } from "../postgres/open.js";
import { prefix } from "../redis/open.js";
import { testFolder } from "../sqlite/folder.js";
import { startProcess } from "./web-locks/process.js";
import { holdLock } from "./web-locks/standard.js";

// Uses REDIS_URL and POSTGRES_URL.
const folder = testFolder();
const STORES = {
  redis: () => ({ keyPrefix: prefix() }),
  postgres: tables,
  sqlite: () => ({ path: folder.file() }),
};

describe.each(Object.entries(STORES))("%s", (store, options) => {
  const module = new URL(`../${store}/open.js`, import.meta.url).href;
  let backend, locks, other, name;
  const job = { module, options: options() };
  beforeAll(async () => {
    const { open } = await import(module);
    backend = await open(job.options);
    locks = createLockManager(backend, { ttlMs: 3_000 });
    other = await startProcess(job);
  });
  afterAll(async () => {
    await other?.kill();
    await backend.close();
  });
  beforeEach(() => {
    name = `name ${randomUUID()}`;
  });
  const named = (list) => list.filter((one) => one.name === name);

  test("a lock that another process holds is waited for, in order", async () => {
    await other.hold(name);
    const order = [];
    const both = [1, 2].map((number) => locks.request(name, () => void order.push(number)));
    await sleep(50);
    expect(order).toEqual([]);
    const { held, pending } = await locks.query();
    expect([named(held).length, named(pending).length]).toEqual([1, 2]);
    await other.release(name);
    await Promise.all(both);
    expect(order).toEqual([1, 2]);
  });

  test("ifAvailable gets null while another process holds the lock", async () => {
    await other.hold(name);
    expect(await locks.request(name, { ifAvailable: true }, (lock) => lock)).toBeNull();
    await other.release(name);
    expect(await locks.request(name, (lock) => lock.name)).toBe(name);
    const { release, released } = await holdLock(locks, name);
    expect(await other.hold(name, { ifAvailable: true })).toBe(false);
    release();
    await released;
  });

  test("query() shows what other processes hold, with another clientId", async () => {
    const mine = await holdLock(locks, name);
    const { held } = await other.query();
    expect(named(held)).toMatchObject([{ name, mode: "exclusive" }]);
    const own = named((await locks.query()).held);
    expect(own).toHaveLength(1);
    expect(named(held)[0].clientId).not.toBe(own[0].clientId);
    mine.release();
    await mine.released;
    expect(named((await other.query()).held)).toEqual([]);
  });

  test("a lock is stolen from another process, whose request rejects", async () => {
    await other.hold(name);
    const waiting = locks.request(name, () => "waited");
    await locks.query();
    expect(await locks.request(name, { steal: true }, (lock) => lock.name)).toBe(name);
    expect(await other.rejection(name)).toMatchObject({ name: "AbortError", cause: "LockLost" });
    expect(await waiting).toBe("waited");
  });

  test("a lock is stolen by another process: the callback continues", async () => {
    const mine = await holdLock(locks, name);
    const rejected = expect(mine.released).rejects.toMatchObject({
      ...{ name: "AbortError", code: 20, message: "The lock was lost" },
      cause: { code: "LockLost" },
    });
    expect(await other.hold(name, { steal: true })).toBe(true);
    await rejected;
    mine.release();
    expect(await locks.request(name, { ifAvailable: true }, (lock) => lock)).toBeNull();
    await other.release(name);
    await locks.request(name, () => {});
  });

  test("an aborted wait for another process leaves nothing behind", async () => {
    await other.hold(name);
    const { signal, abort } = ((controller) => ({
      signal: controller.signal,
      abort: () => controller.abort("reason"),
    }))(new AbortController());
    const first = locks.request(name, { signal }, () => expect.unreachable());
    const second = locks.request(name, () => "second");
    await locks.query();
    const rejected = expect(first).rejects.toBe("reason");
    abort();
    await rejected;
    expect(named((await locks.query()).pending)).toHaveLength(1);
    await other.release(name);
    expect(await second).toBe("second");
  });

  test("the key of a name excludes lock() on it", async () => {
    await lock(
      backend,
      async () => {
        expect(await other.hold(name, { ifAvailable: true })).toBe(false);
      },
      { key: `web-locks:${name}` },
    );
  });

  test("a killed process frees its locks when their lease ends", async () => {
    const doomed = await startProcess(job);
    await doomed.hold(name);
    const granted = locks.request(name, () => Date.now());
    await locks.query();
    await doomed.kill();
    const killedAt = Date.now();
    // Its ttlMs, and what the machine needs.
    expect((await granted) - killedAt).toBeLessThan(6_000);
  });

  test("only one of all processes is inside", async () => {
    let inside = 0;
    const work = async () => {
      inside += 1;
      expect(inside).toBe(1);
      await sleep(1);
      inside -= 1;
    };
    for (let round = 0; round < 10; round += 1) {
      const mine = locks.request(name, work);
      const theirs = other.hold(name).then(async () => {
        expect(inside).toBe(0);
        await sleep(1);
        expect(inside).toBe(0);
        await other.release(name);
      });
      await Promise.all([mine, theirs]);
    }
  });
});
