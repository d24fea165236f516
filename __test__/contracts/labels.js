// holderLabel: who holds a lock, for people. For the backends of this package.

import { describe, expect, test } from "vitest";
import { getById, getByKey, getByKeyRaw, hold, listLocks, lock } from "../fixtures/api.js";
import { until, untilFree } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

// With characters that SQL, JSON, Lua and our own replies have a meaning for.
const LABEL = `web-1:42 "a" 'b' \\ / $1 %s, é 🔒`;
const ttlMs = 60_000;

/** One attempt that is refused, as the message of a wait that ends with it. */
async function refusal(backend, key) {
  const acquisition = { maxRetries: 0, timeoutMs: 600_000 };
  const error = await rejection(lock(backend, () => {}, { key, acquisition }));
  expect(error.code).toBe("AcquisitionTimeout");
  return error.message;
}

export function labels(t) {
  if (!t.native) return;

  /** One with a label, and one without that sees its locks. */
  async function both(label = LABEL) {
    const labelled = await t.another({ holderLabel: label });
    return { labelled, other: t.shared ? await t.backend() : labelled };
  }

  async function listed(backend, key) {
    for await (const info of listLocks(backend, { raw: true })) if (info.key === key) return info;
    return undefined;
  }

  describe("holderLabel", () => {
    test("is shown by every way to look, to everybody", async () => {
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

    test("is named to those who wait in vain", async () => {
      const { labelled, other } = await both();
      const key = t.key();
      const held = await labelled.acquire({ key, ttlMs });
      const message = await refusal(other, key);
      expect(message).toContain("Failed to acquire lock");
      expect(message).toContain(`held by "${LABEL}"`);
      expect(message).not.toContain(key);
      await held.release();
    });

    test("is not there unless it is asked for", async () => {
      await both();
      const backend = await t.backend();
      const key = t.key();
      const held = await backend.acquire({ key, ttlMs });
      expect(Object.keys(await backend.lookup({ key }))).not.toContain("holderLabel");
      expect(Object.keys(await listed(backend, key))).not.toContain("holderLabel");
      expect(await refusal(backend, key)).not.toContain("held by");
      await held.release();
    });

    test("is not taken for that of the next holder", async () => {
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

    test("stays when the lock is extended, and with every heartbeat", async () => {
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

    test("is that of each lock, however many are acquired at once", async () => {
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

    test("has up to 128 bytes", async () => {
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
    ])("one %s is refused", async (_, holderLabel) => {
      const error = await rejection((async () => t.another({ holderLabel }))());
      expect(error.code).toBe("InvalidArgument");
      expect(error.message).toContain("holderLabel");
      if (holderLabel) expect(error.message).not.toContain(String(holderLabel));
    });
  });
}
