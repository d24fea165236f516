// A server that does not answer, is slow, or is gone.

import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { createServer } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startFirestore } from "../../scripts/servers.mjs";
import { rejection } from "../contracts/setup.js";
import { generateLockId, lock } from "../fixtures/api.js";
import { OverlapChecker } from "../fixtures/overlap.js";
import { NOISE_MS, until, untilFree } from "../fixtures/wait.js";
import { createFirestoreBackend } from "../../js/firestore.js";
import { open, PROJECT } from "./open.js";

const ttlMs = 60_000;
let server, patient, hasty;
beforeAll(async () => {
  server = await startFirestore();
  patient = open({ emulatorHost: server.host });
  hasty = open({ emulatorHost: server.host, operationTimeoutMs: 500, connectTimeoutMs: 500 });
});
afterAll(async () => {
  await Promise.all([patient, hasty].map((backend) => backend.close()));
  await server.stop();
});

const faults = (method, ...list) =>
  fetch(`http://${server.host}/faults/${method}?${list}`, { method: "POST" });
const calls = async () => (await fetch(`http://${server.host}/calls`)).json();

test("each operation makes the documented number of calls", async () => {
  await patient.isLocked({ key: "calls" });
  await calls();
  const held = await patient.acquire({ key: "calls", ttlMs });
  expect(await calls()).toEqual(["BatchGetDocuments", "Commit"]);
  await patient.acquire({ key: "calls", ttlMs });
  expect(await calls()).toEqual(["BatchGetDocuments"]);
  await held.extend(ttlMs);
  expect(await calls()).toEqual(["Commit"]);
  await hasty.extend({ lockId: held.lockId, ttlMs });
  expect(await calls()).toEqual(["RunQuery", "Commit"]);
  await held.release();
  expect((await calls()).length).toBeLessThanOrEqual(3);
  // A lockId that does not exist takes no additional call.
  const lockId = generateLockId();
  expect(await patient.release({ lockId })).toEqual({ ok: false });
  expect(await calls()).toEqual(["RunQuery"]);
  expect(await patient.extend({ lockId, ttlMs })).toEqual({ ok: false });
  expect(await calls()).toEqual(["RunQuery"]);
});

test("the TTL starts after the documents were read", async () => {
  const lateMs = 1_000;
  const since = async (method, operation) => {
    await faults(method, `late-${lateMs}`);
    const startedAt = Date.now();
    const { expiresAtMs } = await operation();
    return expiresAtMs - ttlMs - startedAt;
  };
  let held;
  const acquire = async () => (held = await patient.acquire({ key: "time", ttlMs }));
  expect(await since("BatchGetDocuments", acquire)).toBeGreaterThanOrEqual(lateMs - 50);
  // Another backend has to find the document first.
  const other = open({ emulatorHost: server.host });
  const extend = () => other.extend({ lockId: held.lockId, ttlMs });
  expect(await since("RunQuery", extend)).toBeGreaterThanOrEqual(lateMs - 50);
  await other.close();
});

describe("operations that time out or are aborted leave no lock", () => {
  test.each([
    ["its request is lost", "swallow"],
    ["its answer is lost", "lose-answer"],
    ["its request comes late", "late-1000"],
  ])("timed out, because %s", async (label, fault) => {
    await faults("Commit", fault);
    const since = performance.now();
    const acquiring = hasty.acquire({ key: label, ttlMs });
    await expect(acquiring).rejects.toMatchObject({ code: "NetworkTimeout" });
    expect(performance.now() - since).toBeGreaterThanOrEqual(450);
    expect(performance.now() - since).toBeLessThan(500 + NOISE_MS);
    await untilFree(patient, label);
    // By then a late request has arrived.
    await sleep(1_100);
    expect(await patient.isLocked({ key: label })).toBe(false);
    // If the server still held locks for the failed call, this would take at least 2 s.
    const startedAt = performance.now();
    expect(await patient.acquire({ key: label, ttlMs })).toMatchObject({ ok: true });
    expect(performance.now() - startedAt).toBeLessThan(1_500);
  });

  test.each(["BatchGetDocuments", "Commit"])("aborted during %s", async (method) => {
    await faults(method, "late-1500");
    const controller = new AbortController();
    const key = `aborted ${method}`;
    await calls();
    const acquiring = patient.acquire({ key, ttlMs, signal: controller.signal });
    await until(async () => (await calls()).includes(method));
    const startedAt = performance.now();
    controller.abort();
    await expect(acquiring).rejects.toMatchObject({ code: "Aborted" });
    expect(performance.now() - startedAt).toBeLessThan(1_000);
    // The lock is released in the background, after the late request has taken effect.
    await sleep(1_600);
    await untilFree(patient, key);
    expect(await patient.acquire({ key, ttlMs })).toMatchObject({ ok: true });
  });
});

test("a deadline of the server is not our timeout", async () => {
  await faults("BatchGetDocuments", "status-4");
  const acquiring = patient.acquire({ key: "deadline", ttlMs });
  await expect(acquiring).rejects.toMatchObject({
    code: "ServiceUnavailable",
    context: { grpcCode: "DEADLINE_EXCEEDED" },
  });
});

test("a suspended server is a timeout, and works again afterwards", async () => {
  server.suspend();
  try {
    const ping = () => fetch(`http://${server.host}/`, { signal: AbortSignal.timeout(200) });
    await until(() =>
      ping().then(
        () => false,
        () => true,
      ),
    );
    const since = performance.now();
    const operations = await Promise.allSettled([
      hasty.acquire({ key: "still", ttlMs }),
      hasty.isLocked({ key: "still" }),
      hasty.lookup({ key: "still" }),
    ]);
    expect(performance.now() - since).toBeLessThan(1_000 + NOISE_MS);
    for (const { reason } of operations) expect(reason.code).toBe("NetworkTimeout");
    await expect(hasty.isLocked({ key: "still" })).rejects.toMatchObject({
      code: "NetworkTimeout",
    });
  } finally {
    server.resume();
  }
  await untilFree(patient, "still");
  expect(await hasty.acquire({ key: "still", ttlMs })).toMatchObject({ ok: true });
});

test("the server is killed and restarted under load", async () => {
  const overlap = new OverlapChecker();
  const failures = [];
  let done = 0;
  let stopped = false;
  const worker = async (backend) => {
    while (!stopped) {
      try {
        await lock(
          backend,
          async ({ fence }) => {
            // A restarted server has lost its counters.
            const leave = overlap.enter(`${round}`, fence);
            await sleep(1);
            leave();
          },
          { key: "load", ttlMs: 1_000 },
        );
        done++;
      } catch (error) {
        failures.push(error.code);
        await sleep(20);
      }
    }
  };
  let round = 0;
  const workers = [patient, patient, hasty, hasty].map(worker);
  await until(() => done > 20);
  for (round = 1; round <= 2; round++) {
    await server.kill();
    const failed = failures.length;
    await until(() => failures.length > failed);
    await server.server.start();
    const target = done + 20;
    await until(() => done > target);
  }
  stopped = true;
  await Promise.all(workers);
  for (const code of new Set(failures)) {
    expect(["ServiceUnavailable", "NetworkTimeout"]).toContain(code);
  }
  expect(done).toBeGreaterThan(60);
}, 120_000);

test("without a server every operation fails after connectTimeoutMs, with the reason", async () => {
  await server.kill();
  try {
    const lockId = "A".repeat(22);
    for (const operation of [
      () => hasty.acquire({ key: "gone", ttlMs }),
      () => hasty.release({ lockId }),
      () => hasty.extend({ lockId, ttlMs }),
      () => hasty.isLocked({ key: "gone" }),
      () => hasty.lookup({ lockId }),
    ]) {
      const startedAt = performance.now();
      const error = await rejection(operation());
      expect(performance.now() - startedAt).toBeLessThan(500 + NOISE_MS);
      expect(error.code).toBe("ServiceUnavailable");
      expect(error.message).toContain(server.host);
      expect(error.message).toContain("connection refused");
      expect(error.message).toMatch(/Gave up after \d+ ms \(connectTimeoutMs\)/);
    }
  } finally {
    await server.server.start();
  }
  expect(await patient.acquire({ key: "gone", ttlMs })).toMatchObject({ ok: true });
});

test("operations and waits survive a restart of the server", async () => {
  const key = "outlasting";
  await patient.acquire({ key, ttlMs });
  const acquisition = { retryDelayMs: 1_000, backoff: "fixed", jitter: "none", timeoutMs: 60_000 };
  const waiting = lock(patient, () => "held", { key, ttlMs: 5_000, acquisition });
  // The waiter is between two attempts.
  await sleep(500);
  await server.kill();
  const operations = [
    patient.isLocked({ key: "other" }),
    patient.acquire({ key: "new", ttlMs }),
    patient.release({ lockId: generateLockId() }),
  ];
  await sleep(1_500);
  await server.server.start();
  // The restarted server has lost the lock.
  expect(await Promise.all([waiting, ...operations])).toMatchObject([
    "held",
    false,
    { ok: true },
    { ok: false },
  ]);
}, 60_000);

describe("a server that is not a Firestore server as configured", () => {
  const reason = async (target) => {
    const options = { connectTimeoutMs: 1_000 };
    const backend = createFirestoreBackend({ projectId: PROJECT, ...target }, options);
    const error = await rejection(backend.isLocked({ key: "k" }));
    await backend.close();
    return error;
  };

  test("it expects TLS, and the backend does not", async () => {
    const tls = createServer(() => {});
    tls.on("tlsClientError", () => {});
    await once(tls.listen(0, "127.0.0.1"), "listening");
    const emulatorHost = `127.0.0.1:${tls.address().port}`;
    const error = await reason({ emulatorHost });
    tls.close();
    expect(error.code).toBe("InvalidArgument");
    expect(error.message).toContain(emulatorHost);
    expect(error.message).toContain("this is a TLS port");
  });

  test("it does not expect TLS, and the backend does", async () => {
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const credentials = {
      client_email: "locks@test.iam.gserviceaccount.com",
      private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
    };
    const error = await reason({ host: server.host, ssl: true, credentials });
    expect(error.message).toContain(server.host);
    expect(error.message).toMatch(/not a TLS port|TLS handshake/);
    expect(error.message).toContain("TLS");
  });

  test("its host name has no address", async () => {
    const error = await reason({ emulatorHost: "syncguard.invalid:8080" });
    expect(error.code).toBe("ServiceUnavailable");
    expect(error.message).toContain("syncguard.invalid:8080");
    expect(error.message).toContain("host not found");
  });
});
