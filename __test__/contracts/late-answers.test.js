// The answer to an acquire comes when the lock's time is over. The lock is released, and the wait
// continues. A process that acquired the lock in the meantime is its only holder.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TIME_TOLERANCE_MS } from "../fixtures/api.js";
import { FORMS } from "../fixtures/forms.js";
import { createCustomBackend, createStore } from "../fixtures/custom-backend.js";
import { startSlowProxy } from "../fixtures/slow-proxy.js";
import { NOISE_MS, until, untilFree } from "../fixtures/wait.js";
import { collections, open as openFirestore } from "../firestore/open.js";
import { open as openPostgres, tables } from "../postgres/open.js";
import { open as openRedis, prefix } from "../redis/open.js";
import { startFirestore } from "../../scripts/servers.mjs";
import { rejection } from "./setup.js";

const TTL_MS = 400;
const LATE_MS = 700;
const ACQUISITION = { retryDelayMs: 20, maxDelayMs: 100, maxRetries: 1_000_000, timeoutMs: 20_000 };

/** For each store: a backend whose answers can be delayed, one without delay, and how to close both. */
const STORES = {
  async redis() {
    const url = new URL(process.env.REDIS_URL);
    const proxy = await startSlowProxy(Number(url.port));
    url.port = proxy.port;
    const keyPrefix = prefix();
    const slow = openRedis({ target: url.href, keyPrefix });
    return { slow, fast: openRedis({ keyPrefix }), ...delaying(proxy) };
  },

  async postgres() {
    const url = new URL(process.env.POSTGRES_URL);
    const proxy = await startSlowProxy(Number(url.port));
    const names = tables();
    const fast = await openPostgres(names);
    url.port = proxy.port;
    return { slow: await openPostgres({ url: url.href, ...names }), fast, ...delaying(proxy) };
  },

  async firestore() {
    const server = await startFirestore();
    const names = collections();
    const open = () => openFirestore({ emulatorHost: server.host, ...names });
    // This delays the next commit of either backend. Only one of them is used at that time.
    const delay = (ms) =>
      fetch(`http://${server.host}/faults/Commit?late-${ms}`, { method: "POST" });
    return { slow: open(), fast: open(), delay, hurry: () => {}, stop: () => server.stop() };
  },

  async "a custom backend"() {
    const store = createStore();
    const [fast, inner] = [createCustomBackend(store), createCustomBackend(store)];
    let delayMs = 0;
    const slow = {
      ...inner,
      async acquire(options) {
        const result = await inner.acquire(options);
        await sleep(delayMs);
        return result;
      },
    };
    return {
      ...{ slow, fast },
      delay: (ms) => void (delayMs = ms),
      hurry: () => void (delayMs = 0),
      stop: () => {},
    };
  },
};

function delaying(proxy) {
  return {
    delay: (ms) => void (proxy.delayMs = ms),
    hurry: () => void (proxy.delayMs = 0),
    stop: () => proxy.stop(),
  };
}

// The stores are tested at the same time, because the tests mostly wait. Tests of one store share its delay.
describe.concurrent.each(Object.keys(STORES))("%s", (name) => {
  describe.sequential("a reply that comes after the TTL", () => {
    let slow, fast, delay, hurry, stop;
    beforeAll(async () => {
      ({ slow, fast, delay, hurry, stop } = await STORES[name]());
      // Makes the connections, and loads the scripts.
      for (const backend of [slow, fast]) {
        await (await backend.acquire({ key: "first", ttlMs: 1_000 })).release();
      }
    });
    afterAll(async () => {
      await Promise.all([slow.close(), fast.close()]);
      await stop();
    });

    test.each([
      ["lock", false],
      ["lock", true],
      ["hold", false],
      ["lead", true],
    ])(
      "%s, heartbeat %s: the function is not called with a lock that came late",
      async (form, autoExtend) => {
        const key = `${form} ${autoExtend}`;
        const entries = [];
        await delay(LATE_MS);
        const since = performance.now();
        const config = { key, ttlMs: TTL_MS, autoExtend, acquisition: ACQUISITION };
        const working = FORMS[form](slow, config, ({ isHeld, signal, fence }) => {
          entries.push({ isHeld: isHeld(), aborted: signal.aborted, fence });
        });
        await sleep(100);
        await hurry();
        await working;
        expect(performance.now() - since).toBeGreaterThanOrEqual(LATE_MS - 50);
        expect(performance.now() - since).toBeLessThan(LATE_MS + 1_000 + 2 * NOISE_MS);
        expect(entries).toEqual([{ isHeld: true, aborted: false, fence: "000000000000002" }]);
        await untilFree(fast, key);
      },
    );

    test("another holder that acquired the lock in the meantime keeps it", async () => {
      const key = "taken";
      let entered = false;
      // Waits until the lock has expired in every store.
      const lateMs = TTL_MS + TIME_TOLERANCE_MS + 500;
      await delay(lateMs);
      const config = { key, ttlMs: TTL_MS, acquisition: ACQUISITION };
      const working = FORMS.lock(slow, config, ({ isHeld, fence }) => {
        entered = true;
        return [isHeld(), fence];
      });
      await sleep(100);
      await hurry();
      const other = await until(async () => {
        const taken = await fast.acquire({ key, ttlMs: 60_000 });
        return taken.ok && taken;
      });
      await sleep(lateMs);
      expect(entered).toBe(false);
      expect(await fast.lookup({ lockId: other.lockId })).not.toBeNull();
      expect((await other.release()).ok).toBe(true);
      const [isHeld, fence] = await working;
      expect(isHeld).toBe(true);
      expect(fence > other.fence).toBe(true);
    });

    test("the wait continues within its limits, and nothing stays locked", async () => {
      const key = "limits";
      await delay(LATE_MS);
      const since = performance.now();
      const acquisition = { ...ACQUISITION, timeoutMs: 600 };
      const config = { key, ttlMs: 500, acquisition };
      const error = await rejection(FORMS.lock(slow, config, () => "entered"));
      expect(error.code).toBe("AcquisitionTimeout");
      expect(performance.now() - since).toBeGreaterThanOrEqual(590);
      expect(performance.now() - since).toBeLessThan(600 + NOISE_MS);
      await hurry();
      await untilFree(fast, key);
    });
  });
});
