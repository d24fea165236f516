// holderLabel tells people who holds a lock. Only the backends of this package have it.

import { describe, expect, test } from "vitest";
import { getById, getByKey, getByKeyRaw, hold, listLocks, lock } from "../fixtures/api.js";
import { until, untilFree } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

// The label has characters with a meaning in SQL, JSON, Lua and our own replies.
const LABEL = `web-1:42 "a" 'b' \\ / $1 %s, é 🔒`;
const ttlMs = 60_000;

/** Returns the message of a wait that ends with one refused attempt. */
async function refusal(backend, key) {
  const acquisition = { maxRetries: 0, timeoutMs: 600_000 };
  const error = await rejection(lock(backend, () => {}, { key, acquisition }));
  expect(error.code).toBe("AcquisitionTimeout");
  return error.message;
}

export function labels(t) {
  if (!t.native) return;

  /** Returns a backend with a label, and one without a label that sees the same locks. */
  async function both(label = LABEL) {
    const labelled = await t.another({ holderLabel: label });
    return { labelled, other: t.shared ? await t.backend() : labelled };
  }

  async function listed(backend, key) {
    for await (const info of listLocks(backend, { raw: true })) if (info.key === key) return info;
    return undefined;
  }

  describe("holderLabel", () => {
    test("is shown by lookup and listLocks, on every backend", async () => {
      const { labelled, other } = await both();
      const key = t.key();
      const { lockId, release } = await labelled.acquire({ key, ttlMs });
      for (const info of [
        await labelled.lookup({ key }),
        await other.lookup({ key }),
        await other.lookup({ lockId }),
        await getByKey(other, key),
        await getById(other, lockId),
        await getByKeyRaw(other, key),
        await listed(other, key),
      ]) {
        expect(info.holderLabel).toBe(LABEL);
      }
      expect((await release()).ok).toBe(true);
    });

    test("is in the error of a wait that times out", async () => {
      const { labelled, other } = await both();
      const key = t.key();
      const held = await labelled.acquire({ key, ttlMs });
      const message = await refusal(other, key);
      expect(message).toContain("Failed to acquire lock");
      expect(message).toContain(`held by "${LABEL}"`);
      expect(message).not.toContain(key);
      await held.release();
    });

    test("is absent if the holder has no label", async () => {
      await both();
      const backend = await t.backend();
      const key = t.key();
      const held = await backend.acquire({ key, ttlMs });
      expect(Object.keys(await backend.lookup({ key }))).not.toContain("holderLabel");
      expect(Object.keys(await listed(backend, key))).not.toContain("holderLabel");
      expect(await refusal(backend, key)).not.toContain("held by");
      await held.release();
    });

    test("is not shown for the next holder", async () => {
      const { labelled } = await both();
      const next = t.shared ? await t.backend() : await t.isolated();
      const key = t.key();
      await labelled.acquire({ key, ttlMs: 1 });
      await untilFree(next, key);
      const held = await next.acquire({ key, ttlMs });
      expect(await next.lookup({ key })).not.toHaveProperty("holderLabel");
      expect(await refusal(next, key)).not.toContain("held by");
      await held.release();
      const again = await labelled.acquire({ key, ttlMs });
      expect((await labelled.lookup({ key })).holderLabel).toBe(LABEL);
      await again.release();
    });

    test("stays after an extension and after each heartbeat", async () => {
      const { labelled, other } = await both();
      const key = t.key();
      const single = await labelled.acquire({ key, ttlMs });
      expect((await single.extend(2 * ttlMs)).ok).toBe(true);
      expect((await other.lookup({ key })).holderLabel).toBe(LABEL);
      expect((await other.extend({ lockId: single.lockId, ttlMs })).ok).toBe(true);
      expect((await other.lookup({ key })).holderLabel).toBe(LABEL);
      await single.release();

      const held = await hold(labelled, { key, ttlMs: 3_000, autoExtend: true });
      const { expiresAtMs } = await other.lookup({ key });
      const beaten = await until(async () => {
        const info = await other.lookup({ key });
        return info.expiresAtMs > expiresAtMs && info;
      }, "a heartbeat");
      expect(beaten.holderLabel).toBe(LABEL);
      await held.release();
    });

    test("belongs to each lock, even if many are acquired at once", async () => {
      const { labelled, other } = await both();
      const keys = Array.from({ length: 40 }, () => t.key());
      const locks = await Promise.all(keys.map((key) => labelled.acquire({ key, ttlMs })));
      expect(locks.map(({ ok }) => ok)).toEqual(keys.map(() => true));
      const found = await Promise.all(keys.map((key) => other.lookup({ key })));
      expect(found.map(({ holderLabel }) => holderLabel)).toEqual(keys.map(() => LABEL));
      for (const message of await Promise.all(keys.map((key) => refusal(other, key)))) {
        expect(message).toContain(`held by "${LABEL}"`);
      }
      const released = await Promise.all(locks.map((held) => held.release()));
      expect(released).toEqual(keys.map(() => ({ ok: true })));
    });

    test("can have 128 bytes", async () => {
      const label = "é".repeat(64);
      const { labelled, other } = await both(label);
      const key = t.key();
      const held = await labelled.acquire({ key, ttlMs });
      expect((await other.lookup({ key })).holderLabel).toBe(label);
      expect(await refusal(other, key)).toContain(label);
      await held.release();
    });

    test.each([
      ["empty", ""],
      ["too long", "é".repeat(64) + "x"],
      ["with a line break", "a\nb"],
      ["with a command for a terminal", "\u001b[2J"],
      ["that turns the text around", "\u202e"],
      ["with half a character", "a\ud83d"],
      ["that is a number", 7],
      ["that is null", null],
    ])("a label %s is refused", async (_, holderLabel) => {
      const error = await rejection((async () => t.another({ holderLabel }))());
      expect(error.code).toBe("InvalidArgument");
      expect(error.message).toContain("holderLabel");
      if (holderLabel) expect(error.message).not.toContain(String(holderLabel));
    });
  });
}
