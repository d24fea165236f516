// What a program does on SIGTERM while it works, while it waits, and if its work takes too long.

import { randomUUID } from "node:crypto";
import { afterAll, beforeEach, expect, test } from "vitest";
import { open } from "../redis/open.js";
import { start } from "./program.js";

// Uses REDIS_URL.
const backend = open();
afterAll(() => backend.close());

let key;
beforeEach(() => {
  key = randomUUID();
});
const begin = (workMs, env = {}) =>
  start("shutdown", [key, workMs], { SYNCGUARD_URL: process.env.REDIS_URL, ...env });

test("the work that runs is finished, and no other is begun", async () => {
  const program = begin(800);
  await program.line(/^working/);
  program.kill("SIGTERM");
  const lines = ["working", "SIGTERM: shutting down", "done", "bye"];
  expect(await program.exit()).toEqual({ code: 0, lines });
  expect(await backend.isLocked({ key })).toBe(false);
});

test("a wait is cancelled", async () => {
  const holder = begin(600_000);
  await holder.line(/^working/);
  const waiting = begin(0);
  // It has its handler for signals before it waits.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  waiting.kill("SIGINT");
  expect(await waiting.exit()).toEqual({ code: 0, lines: ["SIGINT: shutting down", "bye"] });
  holder.kill("SIGKILL");
});

test("work that exceeds the grace period is stopped, and its lock released", async () => {
  const program = begin(600_000, { GRACE_MS: "300" });
  await program.line(/^working/);
  program.kill("SIGTERM");
  const { code, lines } = await program.exit();
  expect(code).toBe(1);
  expect(lines.slice(0, 2)).toEqual(["working", "SIGTERM: shutting down"]);
  expect(lines.slice(2)).toEqual([expect.stringMatching(/^stopped: .*closed/), "bye"]);
  expect(await backend.isLocked({ key })).toBe(false);
});

test("a second signal ends the program at once, and its lock is released", async () => {
  const program = begin(600_000);
  await program.line(/^working/);
  program.kill("SIGTERM");
  await program.line(/shutting down/);
  program.kill("SIGTERM");
  expect(await program.exit()).toMatchObject({ code: 1 });
  expect(await backend.isLocked({ key })).toBe(false);
});
