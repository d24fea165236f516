// The server dies, is suspended or comes back while lock() waits, holds or ends. The tests check what the caller
// learns, and how soon. The fault tests of each backend that has a server use them.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { LockError, lock, owns, withTelemetry } from "../fixtures/api.js";
import { ENDING_FORMS, FORMS } from "../fixtures/forms.js";
import { NOISE_MS, aborted, deferred, until, untilFree } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

const LIMIT_MS = 600;
const LIMITS = { connectTimeoutMs: LIMIT_MS, operationTimeoutMs: LIMIT_MS };

// The back-off does not end this wait.
const WOKEN = { retryDelayMs: 300_000, timeoutMs: 60_000, backoff: "fixed", jitter: "none" };
const EAGER = { retryDelayMs: 50, timeoutMs: 60_000, maxRetries: 1_000_000, backoff: "fixed" };

const never = () => {
  throw new Error("the function must not run");
};

async function measured(promise) {
  const since = performance.now();
  const result = await promise;
  return { result, took: performance.now() - since };
}

function expectCode(error, code) {
  expect(error).toBeInstanceOf(LockError);
  expect(error.code).toBe(code);
}

/**
 * @param {object} spec
 * @param {() => Promise<any>} spec.start a server that may be killed
 * @param {(server: any, options: object) => any} spec.open a backend on it
 * @param {(server: any) => string} spec.place returns the name of the server in messages
 * @param {boolean} [spec.keepsLocks] whether locks survive the death of the server (default true)
 */
export function serverDeath({ start, open, place, keepsLocks = true }) {
  let server;
  let opened = [];
  let keys = 0;
  const connect = async (options) => {
    const backend = await open(server, { ...LIMITS, ...options });
    opened.push(backend);
    return backend;
  };
  /** Suspends the server, including its threads that are working at that moment. */
  const standStill = async () => {
    server.suspend();
    await sleep(100);
  };
  const newKey = () => `death:${++keys}`;
  /** Repeats work that fails because the server has only just come back. */
  const again = (operation) =>
    until(
      () =>
        operation().then(
          () => true,
          () => false,
        ),
      "the server",
    );

  beforeAll(async () => void (server = await start()));
  afterEach(async () => {
    server.resume();
    await server.restart();
    await Promise.all(opened.map((backend) => backend.close()));
    opened = [];
  });
  afterAll(() => server.stop());

  const operations = (backend) => [
    () => backend.acquire({ key: "k", ttlMs: 60_000 }),
    () => backend.release({ lockId: "A".repeat(22) }),
    () => backend.extend({ lockId: "A".repeat(22), ttlMs: 60_000 }),
    () => backend.isLocked({ key: "k" }),
    () => backend.lookup({ key: "k" }),
  ];

  describe("a single operation", () => {
    test.each([
      ["with a connection", true],
      ["without one yet", false],
    ])(
      "dead, %s: ServiceUnavailable within connectTimeoutMs, with the address",
      async (_, connected) => {
        const backend = await connect();
        if (connected) await backend.isLocked({ key: "k" });
        await server.kill();
        for (const operation of operations(backend)) {
          const { result, took } = await measured(rejection(operation()));
          expectCode(result, "ServiceUnavailable");
          expect(took).toBeLessThan(LIMIT_MS + NOISE_MS);
        }
        // The first operations may have lost a connection. These could not make one.
        const error = await rejection(backend.isLocked({ key: "k" }));
        expect(error.message).toContain(place(server));
      },
    );

    test.each([
      ["with a connection", true],
      ["without one yet", false],
    ])("suspended, %s: NetworkTimeout within the limit", async (_, connected) => {
      const backend = await connect();
      if (connected) await backend.isLocked({ key: "k" });
      await standStill();
      const all = await Promise.all(
        operations(backend).map((operation) => measured(rejection(operation()))),
      );
      for (const { result, took } of all) {
        expectCode(result, "NetworkTimeout");
        expect(took).toBeGreaterThanOrEqual(LIMIT_MS - 50);
        expect(took).toBeLessThan(2 * LIMIT_MS + NOISE_MS);
      }
      server.resume();
      await again(() => untilFree(backend, "k"));
    });
  });

  describe("waiting", () => {
    test("the server dies and comes back: the wait continues, and is woken", async () => {
      const holder = await connect();
      const waiter = await connect({ connectTimeoutMs: 10_000 });
      const key = newKey();
      const held = await holder.acquire({ key, ttlMs: 60_000 });
      let entered = false;
      // Connect first: a waiter that does not know how long an attempt takes watches the key only later.
      await waiter.isLocked({ key });
      const waiting = lock(waiter, () => (entered = true), { key, acquisition: WOKEN });
      await sleep(2_000);
      await server.kill();
      await server.restart();
      if (keepsLocks) {
        await sleep(1_500);
        expect(entered).toBe(false);
        await again(() => holder.release({ lockId: held.lockId }));
      }
      const { took } = await measured(waiting);
      expect(took).toBeLessThan(3_000 + NOISE_MS);
    }, 60_000);

    // Until then some attempts are lost with their connection, and others get no connection.
    test("the server restarts while attempts are made all the time: the wait continues", async () => {
      const holder = await connect({ connectTimeoutMs: 20_000 });
      const waiter = await connect({ connectTimeoutMs: 20_000, operationTimeoutMs: 5_000 });
      const key = newKey();
      const held = await holder.acquire({ key, ttlMs: 60_000 });
      const config = { key, acquisition: { ...EAGER, retryDelayMs: 5 } };
      const waiting = Array.from({ length: 4 }, () => lock(waiter, () => "done", config));
      for (let time = 0; time < 3; time++) {
        await sleep(200);
        await server.kill();
        await sleep(200);
        await server.restart();
      }
      if (keepsLocks) await again(() => holder.release({ lockId: held.lockId }));
      expect(await Promise.all(waiting)).toEqual(Array(4).fill("done"));
    }, 60_000);

    test("the server stays dead: the wait rejects as soon as an attempt could not be made", async () => {
      const backend = await connect();
      const key = newKey();
      await backend.acquire({ key, ttlMs: 60_000 });
      const waiting = rejection(lock(backend, never, { key, acquisition: EAGER }));
      await sleep(200);
      await server.kill();
      const { result, took } = await measured(waiting);
      expectCode(result, "ServiceUnavailable");
      expect(took).toBeLessThan(LIMIT_MS + NOISE_MS);
    });

    /** Starts a wait that times out long before a single operation would. */
    const waitForWall = async (stop) => {
      const backend = await connect({ connectTimeoutMs: 20_000, operationTimeoutMs: 20_000 });
      await backend.isLocked({ key: "k" });
      await stop();
      const acquisition = { timeoutMs: 400 };
      // Measured from before the call, because a busy thread may need a while for the call itself.
      const from = performance.now();
      const result = await rejection(lock(backend, never, { key: newKey(), acquisition }));
      return { result, took: performance.now() - from };
    };
    const expectWall = ({ result, took }) => {
      expectCode(result, "AcquisitionTimeout");
      expect(result.message).toContain("Failed to acquire lock");
      expect(result.message).toContain("did not answer");
      expect(result.message).not.toContain("another holder");
      expect(took).toBeGreaterThanOrEqual(390);
      expect(took).toBeLessThan(400 + NOISE_MS);
    };

    test("the server is dead before the first attempt: the wait times out, and says why", async () => {
      const { result, took } = await waitForWall(() => server.kill());
      expectWall({ result, took });
      expect(result.message).toContain(place(server));
      expectCode(result.cause, "ServiceUnavailable");
    });

    test("the server is suspended: the wait times out, and says why", async () => {
      expectWall(await waitForWall(standStill));
    });

    test("the server is suspended for longer: NetworkTimeout, and nothing is left locked", async () => {
      const backend = await connect();
      const key = newKey();
      const held = await backend.acquire({ key, ttlMs: 60_000 });
      const config = { key, ttlMs: 60_000, acquisition: EAGER };
      const waiting = rejection(lock(backend, never, config));
      await sleep(200);
      await standStill();
      const { result, took } = await measured(waiting);
      expectCode(result, "NetworkTimeout");
      expect(took).toBeLessThan(2 * LIMIT_MS + NOISE_MS);
      server.resume();
      await again(() => backend.release({ lockId: held.lockId }));
      await untilFree(backend, key);
    });
  });

  describe("holding", () => {
    // There are three heartbeats in each TTL, so that one of them meets a dead server.
    const ttlMs = 6_000;

    test("the server is dead for one heartbeat: a lock that still exists is kept alive", async () => {
      const events = [];
      const backend = withTelemetry(await connect(), {
        onEvent: ({ type, result }) => type === "heartbeat" && events.push(result),
      });
      const key = newKey();
      const since = performance.now();
      const outcome = await lock(
        backend,
        async ({ lockId, signal, isHeld }) => {
          await server.kill();
          await until(() => events.includes("fail") || signal.aborted, "a failed heartbeat");
          await server.restart();
          if (!keepsLocks) {
            const reason = await aborted(signal);
            expect(performance.now() - since).toBeLessThan(ttlMs + NOISE_MS);
            return reason.code;
          }
          await until(() => events.at(-1) === "ok" || signal.aborted, "a heartbeat");
          // Without the heartbeat, the lock would have expired by then.
          await sleep(Math.max(0, since + ttlMs + 1_200 - performance.now()));
          expect(signal.aborted).toBe(false);
          expect(isHeld()).toBe(true);
          return (await owns(backend, lockId)) ? "kept" : "gone";
        },
        { key, ttlMs, autoExtend: true },
      );
      expect(outcome).toBe(keepsLocks ? "kept" : "LockLost");
      await untilFree(backend, key);
    }, 60_000);

    test.each([
      ["stays dead", () => server.kill(), "ServiceUnavailable"],
      ["stands still", standStill, "NetworkTimeout"],
    ])(
      "the server %s: LockLost in time, nobody waits for the release, and its failure is reported",
      async (_, stop, code) => {
        const backend = await connect();
        const allHeld = deferred();
        let held = 0;
        let stopping;
        const work = async ({ signal, isHeld }) => {
          held += 1;
          if (held === ENDING_FORMS.length) allHeld.resolve();
          await allHeld.promise;
          const since = performance.now();
          await (stopping ??= stop());
          const reason = await aborted(signal);
          const lostAfter = performance.now() - since;
          expectCode(reason, "LockLost");
          expectCode(reason.cause, code);
          expect(isHeld()).toBe(false);
          // Counted since the last successful heartbeat.
          expect(lostAfter).toBeGreaterThan((2_000 * 2) / 3 - 100);
          expect(lostAfter).toBeLessThan(2_000 + NOISE_MS);
          return "done";
        };
        const lose = async (form) => {
          const failures = [];
          const config = { key: newKey(), ttlMs: 2_000, autoExtend: true };
          const onReleaseError = (error) => failures.push(error);
          expect(await FORMS[form](backend, { ...config, onReleaseError }, work)).toBe("done");
          // The release still waits for the server.
          expect(failures).toEqual([]);
          await until(() => failures.length > 0, "the release to fail");
          expect(failures).toHaveLength(1);
          expectCode(failures[0], code);
        };
        await Promise.all(ENDING_FORMS.map(lose));
      },
      60_000,
    );
  });

  describe("ending", () => {
    const end = async (options, stop) => {
      const failures = [];
      const backend = await connect(options);
      const key = newKey();
      let endedAt;
      const outcome = await lock(
        backend,
        async () => {
          await stop();
          endedAt = performance.now();
          return "done";
        },
        { key, ttlMs: 60_000, onReleaseError: (error) => failures.push(error) },
      );
      expect(outcome).toBe("done");
      return { backend, key, failures, took: performance.now() - endedAt };
    };

    test("the server is dead: the value is returned, and the failed release is reported", async () => {
      const { failures, took } = await end({}, () => server.kill());
      expect(failures).toHaveLength(1);
      expectCode(failures[0], "ServiceUnavailable");
      expect(took).toBeLessThan(LIMIT_MS + NOISE_MS);
    });

    test("the server is suspended: the same, with a NetworkTimeout", async () => {
      const { failures, took } = await end({}, standStill);
      expect(failures).toHaveLength(1);
      expectCode(failures[0], "NetworkTimeout");
      expect(took).toBeLessThan(2 * LIMIT_MS + NOISE_MS);
    });

    test("the server was away in the meantime: the lock is released", async () => {
      const { backend, key, failures } = await end({}, async () => {
        await server.kill();
        await server.restart();
        // A broken connection is replaced by this operation, or else by the next one.
        await again(() => opened[0].isLocked({ key: "any" }));
      });
      expect(failures).toEqual([]);
      expect(await backend.isLocked({ key })).toBe(false);
    });
  });

  if (keepsLocks) {
    test("the server was killed: fences continue to grow", async () => {
      const backend = await connect({ connectTimeoutMs: 10_000 });
      const key = newKey();
      const fences = [];
      for (let round = 0; round < 3; round++) {
        // The lock expires by itself. A release may be lost with the server, but a fence must not be.
        const held = await until(async () => {
          const granted = await backend.acquire({ key, ttlMs: 1 });
          return granted.ok && granted;
        });
        await server.kill();
        await server.restart();
        await again(() => backend.isLocked({ key }));
        fences.push(held.fence);
      }
      expect(fences).toEqual(["000000000000001", "000000000000002", "000000000000003"]);
    }, 60_000);
  }

  describe("closing", () => {
    test("the server is dead: held locks are given up, and close ends", async () => {
      const backend = await connect();
      const config = { key: newKey(), ttlMs: 60_000, autoExtend: true, throwIfLost: true };
      let took;
      const outcome = lock(
        backend,
        async ({ signal }) => {
          await server.kill();
          ({ took } = await measured(backend.close({ timeoutMs: 500 })));
          expectCode(await aborted(signal), "LockLost");
        },
        config,
      );
      expectCode(await rejection(outcome), "LockLost");
      // An undo that fails is retried for ten seconds.
      expect(took).toBeLessThan(500 + 10_000 + NOISE_MS);
    }, 60_000);
  });
}
