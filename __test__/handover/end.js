// A process with waiters ends: it leaves nothing on the server, and nothing keeps it alive.

import { expect, test } from "vitest";
import { until } from "../fixtures/wait.js";
import { ONLY_WHEN_TOLD, untilWaiting } from "./setup.js";

const noWatchers = (t) =>
  until(async () => (await t.store.watchers()) === 0, "the server to be rid of all waiters");

/** Starts a process that waits for some keys. */
async function waiting(t, config) {
  const waiter = await t.process();
  const keys = [t.key(), t.key(), t.key()];
  for (const key of keys) await t.backend.acquire({ key, ttlMs: 60_000 });
  const outcomes = keys.map((key) => waiter.wait({ key, ...config }));
  if (t.store.watchers) await until(async () => (await t.store.watchers()) > 0, "a waiter");
  await untilWaiting();
  return { waiter, outcomes };
}

export function end(t) {
  test("if its backend is closed, the waits end and then the process ends", async () => {
    const { waiter, outcomes } = await waiting(t, ONLY_WHEN_TOLD);
    await waiter.close();
    for (const { failed } of await Promise.all(outcomes)) expect(failed).toBeTruthy();
    if (t.store.watchers) await noWatchers(t);
    await waiter.disconnect();
    expect(await waiter.exit).toMatchObject({ code: 0, signal: null, stderr: "" });
  });

  test("if its waits fail and nothing is closed, the process ends all the same", async () => {
    const { waiter, outcomes } = await waiting(t, { acquisition: { timeoutMs: 5_000 } });
    for (const { failed } of await Promise.all(outcomes)) expect(failed).toBe("AcquisitionTimeout");
    await waiter.disconnect();
    expect(await waiter.exit).toMatchObject({ code: 0, signal: null, stderr: "" });
    if (t.store.watchers) await noWatchers(t);
  });

  test("it is killed", async () => {
    const { waiter } = await waiting(t, ONLY_WHEN_TOLD);
    await waiter.kill();
    if (t.store.watchers) await noWatchers(t);
  });
}
