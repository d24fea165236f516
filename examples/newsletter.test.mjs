// A test of code that uses a lock (newsletter.mjs), without a server and without delays. With
// `clock: "javascript"`, fake timers drive expiry, heartbeats and waits of the memory backend, so the
// test can skip minutes.
//
//   npm test -- examples/newsletter.test.mjs    (elsewhere: npx vitest run)

import { forceRelease } from "syncguard";
import { createMemoryBackend } from "syncguard/memory";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { sendNewsletter } from "./newsletter.mjs";

const issue = { number: 7, readers: ["ada", "grace", "edsger"] };
let backend;

beforeEach(() => {
  vi.useFakeTimers();
  backend = createMemoryBackend({ clock: "javascript" });
});

afterEach(async () => {
  await backend.close();
  vi.useRealTimers();
});

/** Returns a delivery that takes `ms` milliseconds. */
const deliveryOf = (ms) => vi.fn(() => new Promise((resolve) => setTimeout(resolve, ms)));

test("only one of two hosts that try at once sends", async () => {
  const deliver = deliveryOf(0);
  const both = [1, 2].map(() => sendNewsletter(backend, issue, deliver));
  await vi.runAllTimersAsync();
  expect((await Promise.all(both)).sort()).toEqual(["sent", "skipped"]);
  expect(deliver.mock.calls.flat()).toEqual(issue.readers);
});

test("a host whose clock is half a minute behind does not send again", async () => {
  const deliver = vi.fn();
  expect(await sendNewsletter(backend, issue, deliver)).toBe("sent");
  await vi.advanceTimersByTimeAsync(30_000);
  expect(await sendNewsletter(backend, issue, deliver)).toBe("skipped");
  expect(deliver).toHaveBeenCalledTimes(3);
});

test("the lock is kept until everything is sent", async () => {
  const sending = sendNewsletter(backend, issue, deliveryOf(600_000));
  await vi.advanceTimersByTimeAsync(1_700_000);
  expect(await sendNewsletter(backend, issue, vi.fn())).toBe("skipped");
  await vi.advanceTimersByTimeAsync(100_000);
  expect(await sending).toBe("sent");
});

test("nothing is sent after the lock is lost", async () => {
  const deliver = deliveryOf(60_000);
  const sending = sendNewsletter(backend, issue, deliver);
  const failed = expect(sending).rejects.toMatchObject({ code: "LockLost" });
  await vi.advanceTimersByTimeAsync(1_000);
  await forceRelease(backend, { key: "newsletter:7" });
  await vi.advanceTimersByTimeAsync(60_000);
  await failed;
  expect(deliver).toHaveBeenCalledTimes(1);
});
