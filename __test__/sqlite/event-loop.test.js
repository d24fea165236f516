// Operations run on the JavaScript thread if they need not wait. The thread must not wait for another
// process that is stopped in the middle of a write.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { rejection } from "../contracts/setup.js";
import { NOISE_MS } from "../fixtures/wait.js";
import { testFolder } from "./folder.js";
import { open } from "./open.js";
import { startWriter } from "./stopped-writer.js";

const LIMIT_MS = 1_000;
const folder = testFolder();
let writer;

afterAll(() => writer?.end());

/** Returns the longest time without a timer callback while `work` was running. */
async function longestPause(work) {
  let longest = 0;
  let last = performance.now();
  const look = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(look, 1);
  await work();
  look();
  clearInterval(timer);
  return longest;
}

test(
  "the event loop continues while another process keeps the file locked",
  async () => {
    const path = folder.file();
    const backend = open({ path, operationTimeoutMs: LIMIT_MS });
    const pair = async () => (await backend.acquire({ key: "own", ttlMs: 60_000 })).release();
    for (let i = 0; i < 200; i++) await pair();
    writer = await startWriter(path);
    for (let round = 0; round < 3; round++) {
      const { lockId } = await backend.acquire({ key: "held", ttlMs: 60_000 });
      await writer.stop();
      const pause = await longestPause(async () => {
        const errors = await Promise.all([
          rejection(backend.acquire({ key: "k", ttlMs: 60_000 })),
          rejection(backend.extend({ lockId, ttlMs: 60_000 })),
          rejection(backend.release({ lockId })),
          sleep(100).then(() => rejection(pair())),
        ]);
        for (const { code } of errors) expect(code).toBe("NetworkTimeout");
      });
      expect(pause).toBeLessThan(LIMIT_MS / 2);
      writer.resume();
      expect(await backend.release({ lockId })).toEqual({ ok: true });
    }
    await writer.end();
    writer = undefined;
    await pair();
    await backend.close();
  },
  30_000 + NOISE_MS,
);

test("a program that only locks still returns to its event loop", async () => {
  const backend = open({ path: folder.file() });
  let turns = 0;
  const timer = setInterval(() => void turns++, 1);
  for (let i = 0; i < 2_000; i++)
    await (await backend.acquire({ key: "k", ttlMs: 60_000 })).release();
  clearInterval(timer);
  expect(turns).toBeGreaterThan(5);
  await backend.close();
});
