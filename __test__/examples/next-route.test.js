// Tests the route handler of Next.js, in two processes. It runs in the real Next.js in
// ../projects/projects.long.test.js.

import { randomUUID } from "node:crypto";
import { afterAll, beforeEach, expect, test } from "vitest";
import { until } from "../fixtures/wait.js";
import { open } from "../redis/open.js";
import { startFile } from "./program.js";

// Uses REDIS_URL.
const backend = open();
afterAll(() => backend.close());

async function serve() {
  const env = { SYNCGUARD_URL: process.env.REDIS_URL };
  const program = startFile("__test__/examples/next-server.js", [], env);
  const [port] = /\d+$/.exec(await program.line(/^nodejs listening/));
  const pay = async (id, ms, options) => {
    const url = `http://127.0.0.1:${port}/orders/${id}/pay?ms=${ms}`;
    const response = await fetch(url, { method: "POST", ...options });
    const retryAfter = response.headers.get("retry-after");
    return { status: response.status, body: await response.json(), retryAfter };
  };
  return { ...program, pay };
}

let here, there, id;
beforeEach(async () => {
  id = randomUUID();
  [here, there] = await Promise.all([serve(), serve()]);
});
const untilLocked = () => until(() => backend.isLocked({ key: `order:${id}` }), "the lock");

test("requests for one order wait for their turn", async () => {
  const answers = await Promise.all([here, there, here].map(({ pay }) => pay(id, 100)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(answers.map(({ body }) => Number(body.fence)).sort()).toEqual([1, 2, 3]);
});

test("a request that waits for too long gets 503, and one that is dropped its lock back", async () => {
  const client = new AbortController();
  const first = here.pay(id, 600_000, { signal: client.signal });
  await untilLocked();
  expect(await there.pay(id, 0)).toMatchObject({ status: 503, retryAfter: "1" });
  client.abort();
  await expect(first).rejects.toThrow("aborted");
  expect(await there.pay(id, 0)).toMatchObject({ status: 200 });
});
