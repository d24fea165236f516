import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { setupSchema } from "../../js/postgres.js";
import { open, tables } from "./open.js";
import { startProxy } from "./proxy.js";

const ONE = { sent: "Q", turns: 1 };
const ttlMs = 60_000;
let proxy;
beforeAll(async () => (proxy = await startProxy(new URL(process.env.POSTGRES_URL).port)));
afterAll(() => proxy.stop());

describe.each([true, false])("with prepare: %s", (prepare) => {
  test("every operation is one message and one round trip", async () => {
    const names = tables();
    await setupSchema(process.env.POSTGRES_URL, names);
    const url = new URL(process.env.POSTGRES_URL);
    url.port = proxy.port;
    const backend = await open({ url: url.href, ...names, poolSize: 1, prepare });
    await backend.isLocked({ key: "k" });
    proxy.take();
    const held = await backend.acquire({ key: "k", ttlMs });
    expect(proxy.take()).toEqual(ONE);
    expect((await backend.acquire({ key: "k", ttlMs })).ok).toBe(false);
    expect(proxy.take()).toEqual(ONE);
    expect(await backend.isLocked({ key: "k" })).toBe(true);
    expect(proxy.take()).toEqual(ONE);
    expect(await backend.lookup({ key: "k" })).not.toBe(null);
    expect(proxy.take()).toEqual(ONE);
    expect(await backend.lookup({ lockId: held.lockId })).not.toBe(null);
    expect(proxy.take()).toEqual(ONE);
    expect((await held.extend(ttlMs)).ok).toBe(true);
    expect(proxy.take()).toEqual(ONE);
    expect((await held.release()).ok).toBe(true);
    expect(proxy.take()).toEqual(ONE);
    // The reason of a failure takes no further round trip either.
    expect(await backend.release({ lockId: held.lockId })).toEqual({ ok: false });
    expect(proxy.take()).toEqual(ONE);
    expect(await backend.extend({ lockId: held.lockId, ttlMs })).toEqual({ ok: false });
    expect(proxy.take()).toEqual(ONE);
    await backend.close();
  });

  test("many operations in flight need far fewer messages than operations", async () => {
    const names = tables();
    await setupSchema(process.env.POSTGRES_URL, names);
    const url = new URL(process.env.POSTGRES_URL);
    url.port = proxy.port;
    const backend = await open({ url: url.href, ...names, prepare });
    const [callers, rounds] = [32, 20];
    // Connect now, so that connecting is not counted.
    await Promise.all(Array.from({ length: callers }, (_, i) => backend.isLocked({ key: `${i}` })));
    proxy.take();
    // All start at once, repeatedly, so the number in flight does not depend on the speed of the machine.
    for (let round = 1; round <= rounds; round++) {
      const acquiring = Array.from({ length: callers }, (_, index) =>
        backend.acquire({ key: `${index}`, ttlMs }),
      );
      const held = await Promise.all(acquiring);
      for (const { fence } of held) expect(Number(fence)).toBe(round);
      const released = await Promise.all(held.map((one) => one.release()));
      for (const { ok } of released) expect(ok).toBe(true);
    }
    const messages = proxy.take().sent.replaceAll(/[^Q]/g, "").length;
    expect(messages).toBeLessThan((2 * callers * rounds) / 2);
    await backend.close();
  });
});
