// Requests that are made together share a script, which saves the server time and affects none of them.

import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { startRedis } from "../../scripts/servers.mjs";
import { rejection } from "../contracts/setup.js";
import { until } from "../fixtures/wait.js";
import { open, prefix } from "./open.js";

const ttlMs = 30_000;
const IN_FLIGHT = 48;
const ROUNDS = 25;

let server;
beforeAll(async () => void (server = await startRedis()));
afterAll(() => server.stop());

const cli = (...args) =>
  execFileSync("redis-cli", ["-p", String(server.port), ...args], { encoding: "utf8" }).trim();
const scriptsRun = () =>
  [...cli("info", "commandstats").matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)].reduce(
    (sum, [, calls]) => sum + Number(calls),
    0,
  );

let backend, keyPrefix;
beforeEach(async () => {
  keyPrefix = prefix();
  const connectionName = keyPrefix;
  backend = open({ target: { port: server.port, connectionName }, keyPrefix });
  await backend.isLocked({ key: "warm" });
  const connections = () => cli("client", "list").split(` name=${connectionName} `).length - 1;
  // The connection for this thread is opened after the first one.
  await until(() => connections() === 2, "both connections");
  return () => backend.close();
});

/** Runs callers that repeatedly acquire and release a lock each. `each` does the acquire. */
const callers = (each) =>
  Promise.all(
    Array.from({ length: IN_FLIGHT }, async (_, index) => {
      for (let round = 1; round <= ROUNDS; round++) await each(`key:${index}`, round, index);
    }),
  );

const takeAndGiveBack = async (key, round) => {
  const held = await backend.acquire({ key, ttlMs });
  expect(held.ok).toBe(true);
  expect(Number(held.fence)).toBe(round);
  expect(await held.release()).toEqual({ ok: true });
};

test("many operations in flight need far fewer scripts", async () => {
  const before = scriptsRun();
  await callers(takeAndGiveBack);
  const operations = 2 * IN_FLIGHT * ROUNDS;
  expect(scriptsRun() - before).toBeLessThan(operations / 3);
});

test("a request that fails does not affect the others", async () => {
  cli("sadd", `${keyPrefix}:key:7`, "not a lock");
  let failed = 0;
  await callers(async (key, round, index) => {
    if (index !== 7) return takeAndGiveBack(key, round);
    const error = await rejection(backend.acquire({ key, ttlMs }));
    expect(error.code).toBe("InvalidArgument");
    failed++;
  });
  expect(failed).toBe(ROUNDS);
});

test("a forbidden key does not affect the others", async () => {
  const password = "secret";
  cli(
    "acl",
    "setuser",
    "limited",
    "on",
    `>${password}`,
    "+@all",
    "resetkeys",
    `~*${keyPrefix}:*key:?`,
  );
  cli("acl", "setuser", "limited", `~${keyPrefix}:id:*`);
  const limited = open({
    target: { port: server.port, username: "limited", password },
    keyPrefix,
  });
  const results = { AuthFailed: 0, ok: 0 };
  await Promise.all(
    Array.from({ length: IN_FLIGHT }, async (_, index) => {
      const key = index % 2 ? `key:${index % 10}` : `other:${index}`;
      for (let round = 0; round < ROUNDS; round++) {
        const held = await limited.acquire({ key, ttlMs }).catch((error) => error);
        if (index % 2 === 0) expect(held.code).toBe("AuthFailed");
        else if (held.ok) await held.release();
        else expect(held.reason).toBe("locked");
        results[held.code ?? "ok"] += 1;
      }
    }),
  );
  expect(results).toEqual({ AuthFailed: (IN_FLIGHT / 2) * ROUNDS, ok: (IN_FLIGHT / 2) * ROUNDS });
  await limited.close();
});

test("a server that lost its scripts gets them again", async () => {
  let forgotten;
  await callers(async (key, round, index) => {
    if (index === 0 && round === 5) {
      cli("script", "flush");
      forgotten = scriptsRun();
    }
    await takeAndGiveBack(key, round);
  });
  const operations = 2 * IN_FLIGHT * (ROUNDS - 5);
  expect(scriptsRun() - forgotten).toBeLessThan(operations / 2);
});
