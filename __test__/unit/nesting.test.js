// A wait for a lock inside the function that holds it says so when it times out.

import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { hold, lead, lock, tryLock, withTelemetry } from "../../js/index.js";
import { createMemoryBackend } from "../../js/memory.js";
import { rejection, scripted } from "./support.js";

const ITSELF = /Failed to acquire lock .*: it waited for itself/;
const PERHAPS =
  /Failed to acquire lock .*: .* while this process itself held the lock.* If the call was made inside/;
const ANOTHER = /Failed to acquire lock .*: .* while another holder had the lock/;

const key = "invoice:42";
const acquisition = { timeoutMs: 30, retryDelayMs: 5 };
const impatient = { key, acquisition };

let backend;
beforeEach(() => void (backend = createMemoryBackend()));
afterEach(() => backend.close());

/** Returns the message of a lock() that times out. */
async function message(on = backend, config = impatient) {
  const error = await rejection(lock(on, () => {}, config));
  expect(error.code).toBe("AcquisitionTimeout");
  expect(error.message).not.toContain(config.key);
  expect(error.stack).toContain(error.message);
  expect(error.context.key).toBe(config.key);
  return error.message;
}

describe("inside the function of", () => {
  test.each([
    ["lock()", (fn) => lock(backend, fn, { key })],
    ["tryLock()", (fn) => tryLock(backend, fn, { key }).then(({ value }) => value)],
    ["lead()", (fn) => lead(backend, fn, { key })],
    ["lock() on the same backend with telemetry", (fn) => lock(observed(), fn, { key })],
  ])("%s", async (_name, around) => {
    expect(await around(() => message())).toMatch(ITSELF);
    expect(await around(() => message(observed()))).toMatch(ITSELF);
    expect(await around(async () => (await sleep(1), message()))).toMatch(ITSELF);
  });

  const observed = () => withTelemetry(backend, { onEvent: () => {} });

  test("lock(), hold() and lead() get the same advice", async () => {
    await lock(
      backend,
      async () => {
        expect((await rejection(hold(backend, impatient))).message).toMatch(ITSELF);
        const led = lead(backend, () => {}, impatient);
        expect((await rejection(led)).message).toMatch(ITSELF);
      },
      { key },
    );
  });

  test("with another lock() in between, and concurrent ones", async () => {
    const nested = lock(
      backend,
      () =>
        lock(
          backend,
          async () => {
            await sleep(1);
            return Promise.all([sleep(1), message(), message(), sleep(1)]);
          },
          { key: "in between" },
        ),
      { key },
    );
    const [, first, second] = await nested;
    expect([first, second]).toEqual([expect.stringMatching(ITSELF), expect.stringMatching(ITSELF)]);
  });

  test("with a key that is the same after normalization", async () => {
    const composed = { key: "caf\u00e9", acquisition };
    const inner = () => message(backend, composed);
    expect(await lock(backend, inner, { key: "cafe\u0301" })).toMatch(ITSELF);
  });

  test("with a lock() on a custom backend", async () => {
    let isHeld = false;
    const own = scripted({
      acquire: async ({ ttlMs }) => {
        if (isHeld) return { ok: false, reason: "locked" };
        isHeld = true;
        return { ok: true, lockId: "own", expiresAtMs: Date.now() + ttlMs, fence: "1" };
      },
    });
    expect(await lock(own, () => message(own), { key })).toMatch(ITSELF);
  });
});

describe("the message does not blame the caller", () => {
  test("for another key or another backend", async () => {
    const other = createMemoryBackend();
    const held = [await hold(backend, { key: "other key" }), await hold(other, { key })];
    await lock(
      backend,
      async () => {
        expect(await message(backend, { key: "other key", acquisition })).not.toMatch(ITSELF);
        expect(await message(other)).not.toMatch(ITSELF);
      },
      { key },
    );
    for (const one of held) await one.release();
    await other.close();
  });

  test("for work that outlives the lock() in which it was started", async () => {
    let outlives;
    await lock(backend, () => void (outlives = sleep(20).then(() => message())), { key });
    const another = await backend.acquire({ key, ttlMs: 60_000 });
    expect(await outlives).toMatch(ANOTHER);
    await another.release();
  });

  test("for a lock that was lost in the meantime", async () => {
    await lock(
      backend,
      async ({ signal }) => {
        await expect.poll(() => signal.aborted).toBe(true);
        const another = await hold(backend, { key, acquisition: { timeoutMs: 5000 } });
        expect(await message()).not.toMatch(ITSELF);
        await another.release();
      },
      { key, ttlMs: 20 },
    );
  });

  test("for another caller in the same process, and only says that this process holds the lock", async () => {
    const held = await hold(backend, { key });
    expect(await message()).toMatch(PERHAPS);
    await held.release();

    const [waited] = await Promise.all([
      sleep(1).then(() => message()),
      lock(backend, () => sleep(100), { key }),
    ]);
    expect(waited).toMatch(PERHAPS);
  });

  test("for a lock that this process does not hold with lock(), hold() or lead()", async () => {
    const held = await backend.acquire({ key, ttlMs: 60_000 });
    expect(await message()).toMatch(ANOTHER);
    await held.release();
  });
});

test("locks that have ended are not kept alive by nested work", async () => {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc");
  const refs = [];
  let report;
  const alive = new Promise((resolve) => (report = resolve));
  /** Starts each lock() inside the one before, which ends as soon as the inner one is held. */
  const run = (left, isThere) =>
    lock(
      backend,
      async ({ signal }) => {
        refs.push(new WeakRef(signal));
        isThere?.();
        if (left > 0) return new Promise((next) => setTimeout(() => run(left - 1, next)));
        await sleep(50);
        gc();
        report(refs.filter((ref) => ref.deref()).length);
      },
      { key: `k${left}` },
    );
  void run(50);
  expect(await alive).toBeLessThan(10);
  expect(refs.length).toBe(51);
});

describe("in production", () => {
  const script = `
    import { lock } from ${JSON.stringify(new URL("../../js/index.js", import.meta.url).href)};
    import { createMemoryBackend } from ${JSON.stringify(new URL("../../js/memory.js", import.meta.url).href)};
    const backend = createMemoryBackend();
    const inner = () => lock(backend, () => {}, { key: "k", acquisition: { timeoutMs: 20 } });
    await lock(backend, inner, { key: "k" }).catch((error) => console.log(error.message));
  `;
  const run = async (env) => {
    const args = ["--input-type=module", "-e", script];
    const { stdout } = await promisify(execFile)(process.execPath, args, {
      env: { ...process.env, ...env },
    });
    return stdout;
  };

  test.each(["", "production"])(
    "(NODE_ENV %j) nothing is checked, and the advice is conditional",
    async (NODE_ENV) => {
      expect(await run({ NODE_ENV, SYNCGUARD_DEBUG: "" })).toMatch(PERHAPS);
    },
  );

  test("SYNCGUARD_DEBUG=true enables the check", async () => {
    expect(await run({ NODE_ENV: "production", SYNCGUARD_DEBUG: "true" })).toMatch(ITSELF);
  });
});
