// The server dies, hangs, loses data or refuses. Errors have the right codes, nothing hangs, no lock
// stays behind, and the backend recovers.

import { once } from "node:events";
import { createServer } from "node:net";
import { afterAll, beforeEach, describe, expect, test, vi } from "vitest";
import { startRedis } from "../../scripts/servers.mjs";
import { rejection } from "../contracts/setup.js";
import { NOISE_MS, until, untilFree } from "../fixtures/wait.js";
import { ioredis, open, prefix } from "./open.js";

const QUICK = { connectTimeoutMs: 500, operationTimeoutMs: 500 };

describe("a separate server", () => {
  let server, keyPrefix;
  const opened = [];
  beforeEach(async () => {
    server ??= await startRedis({ config: { appendonly: "yes", appendfsync: "always" } });
    keyPrefix = prefix();
  });
  afterAll(async () => {
    await Promise.all(opened.map((backend) => backend.close()));
    await server.stop();
  });

  const connect = (options) => {
    const backend = open({ target: server.url, keyPrefix, ...options });
    opened.push(backend);
    return backend;
  };
  const works = async (backend, key = "again") => {
    const held = await backend.acquire({ key, ttlMs: 30_000 });
    expect(held.ok).toBe(true);
    expect(await held.release()).toEqual({ ok: true });
  };

  test("killed and restarted under load", async () => {
    const backend = connect({ connectTimeoutMs: 20_000 });
    const outcomes = { ok: 0, failed: 0, codes: new Set() };
    let going = true;
    const failed = (error) => {
      outcomes.failed += 1;
      outcomes.codes.add(error.code);
    };
    const load = Array.from({ length: 32 }, async (_, index) => {
      while (going) {
        const held = await backend.acquire({ key: `load:${index}`, ttlMs: 60_000 }).catch(failed);
        if (!held?.ok) continue;
        // A release whose answer was lost can be repeated.
        const { lockId } = held;
        while (!(await backend.release({ lockId }).then(() => true, failed)));
        outcomes.ok += 1;
      }
    });
    for (let round = 0; round < 3; round++) {
      const before = outcomes.ok;
      await until(() => outcomes.ok > before + 100, "work to be done");
      await server.kill();
      await server.restart();
    }
    const before = outcomes.ok;
    await until(() => outcomes.ok > before + 100, "work after the last restart");
    going = false;
    await Promise.all(load);
    expect(outcomes.failed).toBeGreaterThan(0);
    for (const code of outcomes.codes) {
      expect(["ServiceUnavailable", "NetworkTimeout"]).toContain(code);
    }
    // Acquires whose answer was lost are undone, so nothing is left.
    for (let index = 0; index < 32; index++) await untilFree(backend, `load:${index}`);
    await works(backend);
  }, 60_000);

  test("the server dies with 10,000 operations in flight", async () => {
    const backend = connect({ ...QUICK, operationTimeoutMs: 20_000 });
    await works(backend);
    server.suspend();
    const inFlight = Array.from({ length: 10_000 }, (_, index) =>
      backend.acquire({ key: `many:${index}`, ttlMs: 60_000 }).then(
        () => "acquired",
        (error) => error.code,
      ),
    );
    await server.kill();
    const codes = new Set(await Promise.all(inFlight));
    expect([...codes]).toEqual(["ServiceUnavailable"]);
    await server.restart();
    await works(backend);
    await until(async () => {
      const left = await server.cli("--scan", "--pattern", `${keyPrefix}:many:*`);
      return left === "";
    }, "every lost acquire to be undone");
  }, 120_000);

  test("an acquire whose answer is lost is undone as soon as the server answers again", async () => {
    const backend = connect(QUICK);
    await works(backend);
    // The server accepts the request and does not answer until it is resumed.
    server.suspend();
    const since = performance.now();
    const error = await rejection(backend.acquire({ key: "lost", ttlMs: 60_000 }));
    const took = performance.now() - since;
    expect(error.code).toBe("NetworkTimeout");
    expect(took).toBeGreaterThanOrEqual(QUICK.operationTimeoutMs - 50);
    expect(took).toBeLessThan(QUICK.operationTimeoutMs + NOISE_MS);
    server.resume();
    await untilFree(backend, "lost");
    const held = await backend.acquire({ key: "lost", ttlMs: 1000 });
    expect(held.ok).toBe(true);
  });

  test("a connection that is killed is replaced", async () => {
    const backend = connect();
    for (let round = 0; round < 5; round++) {
      await works(backend);
      await server.cli("client", "kill", "type", "normal");
      // Either the loss was noticed before the next request, or that request reports it.
      const outcome = await backend.isLocked({ key: "again" }).catch((error) => error.code);
      expect([false, "ServiceUnavailable"]).toContain(outcome);
    }
    await works(backend);
  });

  test("CLIENT PAUSE is a time-out, and the backend recovers", async () => {
    const backend = connect({ operationTimeoutMs: 200 });
    await works(backend);
    const control = ioredis(server.url);
    // Scripts are writes. (Pausing everything would also pause the command that ends it.)
    await control.client("PAUSE", 60_000, "WRITE");
    const since = performance.now();
    const errors = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        rejection(backend.acquire({ key: `paused:${index}`, ttlMs: 60_000 })),
      ),
    );
    for (const error of errors) expect(error.code).toBe("NetworkTimeout");
    expect(performance.now() - since).toBeLessThan(200 + NOISE_MS);
    await control.client("UNPAUSE");
    control.disconnect();
    for (let index = 0; index < 20; index++) await untilFree(backend, `paused:${index}`);
    await works(backend);
  }, 60_000);

  test("SCRIPT FLUSH is not noticed", async () => {
    const backend = connect();
    const held = await backend.acquire({ key: "k", ttlMs: 30_000 });
    for (const [operation, expected] of [
      [() => held.extend(30_000), { ok: true }],
      [() => backend.lookup({ key: "k" }), { fence: held.fence }],
      [() => backend.isLocked({ key: "k" }).then((locked) => ({ locked })), { locked: true }],
      [() => held.release(), { ok: true }],
      [() => backend.acquire({ key: "k", ttlMs: 1000 }), { ok: true }],
    ]) {
      await server.cli("script", "flush");
      expect(await operation()).toMatchObject(expected);
    }
  });
});

/** Forwards bytes until it has to drop them, like a half-open connection. */
async function proxy(port) {
  const { connect } = await import("node:net");
  let open = true;
  const sockets = new Set();
  const server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ]) {
      sockets.add(from);
      const passing = open;
      from.on("data", (data) => passing && open && to.write(data));
      from.on("error", () => {});
      from.on("close", () => to.destroy());
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `redis://127.0.0.1:${server.address().port}`,
    swallow: () => (open = false),
    pass: () => (open = true),
    close: () => {
      sockets.forEach((socket) => socket.destroy());
      server.close();
    },
  };
}

test("a half-open connection is replaced", async () => {
  const { port } = new URL(process.env.REDIS_URL);
  const between = await proxy(Number(port));
  const keyPrefix = prefix();
  const backend = open({ target: between.url, keyPrefix, ...QUICK });
  const held = await backend.acquire({ key: "k", ttlMs: 60_000 });
  between.swallow();
  const since = performance.now();
  expect((await rejection(backend.isLocked({ key: "k" }))).code).toBe("NetworkTimeout");
  expect(performance.now() - since).toBeLessThan(QUICK.operationTimeoutMs + NOISE_MS);
  // New connections work. The old one stays dead.
  between.pass();
  expect(await held.release()).toEqual({ ok: true });
  await backend.close();
  between.close();
});

test("wrong credentials: AuthFailed at once, and never a password in the message", async () => {
  const password = "s3cret-pässword";
  const server = await startRedis({ acl: { username: "locker", password } });
  const { host, port } = server;
  for (const login of [
    {},
    { password: "wrong-s3cret" },
    { username: "nobody", password },
    { username: "locker", password: "wrong-s3cret" },
  ]) {
    const backend = open({ target: { host, port, ...login } });
    const error = await rejection(backend.acquire({ key: "k", ttlMs: 1000 }));
    expect(error.code).toBe("AuthFailed");
    expect(`${error.stack} ${error.cause?.stack}`).not.toMatch(/s3cret/);
    await backend.close();
  }
  const backend = open({ target: { host, port, username: "locker", password } });
  expect((await backend.acquire({ key: "k", ttlMs: 1000 })).ok).toBe(true);
  await backend.close();
  await server.stop();
});

test("a needless password causes one warning and no error", async () => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  const server = await startRedis();
  const { host, port } = server;
  const backend = open({ target: { host, port, password: "needless-s3cret" } });
  expect(await backend.isLocked({ key: "k" })).toBe(false);
  await server.kill();
  await server.restart();
  await until(
    () =>
      backend.isLocked({ key: "k" }).then(
        () => true,
        () => false,
      ),
    "the server",
  );
  await until(() => warn.mock.calls.length > 0, "the warning");
  expect(warn.mock.calls).toEqual([[expect.stringMatching(/^\[SyncGuard\] .* password/)]]);
  expect(warn.mock.calls[0][0]).not.toContain("s3cret");
  warn.mockRestore();
  await backend.close();
  await server.stop();
});

test("TLS: an unknown authority is AuthFailed unless certificates are not verified", async () => {
  const server = await startRedis({ tls: true });
  const { host, port } = server;
  const attempt = async (tls) => {
    const backend = open({ target: { host, port, tls }, keyPrefix: prefix(), ...QUICK });
    try {
      return (await backend.acquire({ key: "k", ttlMs: 100 })).ok ? "acquired" : "locked";
    } catch (error) {
      return error.code;
    } finally {
      await backend.close();
    }
  };
  expect(await attempt(true)).toBe("AuthFailed");
  expect(await attempt({ ca: server.tls.ca, servername: "other.example" })).toBe("AuthFailed");
  expect(await attempt({ rejectUnauthorized: false })).toBe("acquired");
  expect(await attempt({ ca: server.tls.ca })).toBe("acquired");
  expect(await attempt(undefined)).toBe("InvalidArgument");
  await server.stop();

  const strict = await startRedis({ tls: "client-certificate" });
  const { ca, cert, key } = strict.tls;
  const strictly = (tls) => {
    const backend = open({ target: { host, port: strict.port, tls }, ...QUICK });
    return backend
      .isLocked({ key: "k" })
      .catch((error) => error.code)
      .finally(() => backend.close());
  };
  expect(await strictly({ ca })).toBe("AuthFailed");
  expect(await strictly({ ca, cert, key })).toBe(false);
  await strict.stop();
});
