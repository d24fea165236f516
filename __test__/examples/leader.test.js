// Tests leader election between processes.

import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { open } from "../redis/open.js";
import { start } from "./program.js";

const stand = (role) => start("leader", [role], { SYNCGUARD_URL: process.env.REDIS_URL });
const WAITS = "waiting to be elected";
const leads = (number) => `leading, fence ${String(number).padStart(15, "0")}`;
const leading = (number) => new RegExp(leads(number));

/** Starts two processes, the first of which leads. */
async function pair(role = randomUUID()) {
  const first = stand(role);
  await first.line(leading(1));
  const second = stand(role);
  await second.line(/waiting/);
  return [first, second];
}

test("another process takes over when the leader is killed", async () => {
  const [first, second] = await pair();
  expect(second.lines).toEqual([WAITS]);
  first.kill("SIGKILL");
  await second.line(leading(2));
  expect(await first.exit()).toEqual({ code: "SIGKILL", lines: [WAITS, leads(1)] });
});

test("a leader resigns when it shuts down, and a waiting process exits", async () => {
  const role = randomUUID();
  const [first, second] = await pair(role);
  second.kill("SIGTERM");
  expect(await second.exit()).toEqual({ code: 0, lines: [WAITS] });
  first.kill("SIGTERM");
  expect(await first.exit()).toEqual({ code: 0, lines: [WAITS, leads(1), "stopped leading"] });

  const backend = open();
  expect(await backend.isLocked({ key: `leader:${role}` })).toBe(false);
  await backend.close();
});

test("a leader that was paused for too long steps down and rejoins the election", async () => {
  const [first, second] = await pair();
  first.kill("SIGSTOP");
  await second.line(leading(2));
  first.kill("SIGCONT");
  await first.line(/stopped leading/);
  expect(second.lines).toEqual([WAITS, leads(2)]);
  second.kill("SIGKILL");
  await first.line(leading(3));
});
