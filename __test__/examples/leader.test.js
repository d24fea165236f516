// Leader election between processes.

import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { open } from "../redis/open.js";
import { start } from "./program.js";

const stand = (role) => start("leader", [role], { SYNCGUARD_URL: process.env.REDIS_URL });
const STANDS = "stands for election";
const leads = (number) => `leads, fence ${String(number).padStart(15, "0")}`;
const leading = (number) => new RegExp(leads(number));

/** Two of them, the first of which leads. */
async function pair(role = randomUUID()) {
  const first = stand(role);
  await first.line(leading(1));
  const second = stand(role);
  await second.line(/stands/);
  return [first, second];
}

test("a leader that was killed is succeeded", async () => {
  const [first, second] = await pair();
  expect(second.lines).toEqual([STANDS]);
  first.kill("SIGKILL");
  await second.line(leading(2));
  expect(await first.exit()).toEqual({ code: "SIGKILL", lines: [STANDS, leads(1)] });
});

test("one that is told to end resigns, one that waits just ends", async () => {
  const role = randomUUID();
  const [first, second] = await pair(role);
  second.kill("SIGTERM");
  expect(await second.exit()).toEqual({ code: 0, lines: [STANDS] });
  first.kill("SIGTERM");
  expect(await first.exit()).toEqual({ code: 0, lines: [STANDS, leads(1), "leads no more"] });

  const backend = open();
  expect(await backend.isLocked({ key: `leader:${role}` })).toBe(false);
  await backend.close();
});

test("one that was paused for too long steps down, and stands again", async () => {
  const [first, second] = await pair();
  first.kill("SIGSTOP");
  await second.line(leading(2));
  first.kill("SIGCONT");
  await first.line(/leads no more/);
  expect(second.lines).toEqual([STANDS, leads(2)]);
  second.kill("SIGKILL");
  await first.line(leading(3));
});
