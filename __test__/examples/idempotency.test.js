// Two servers get the same request more than once.

import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { until } from "../fixtures/wait.js";
import { open } from "../redis/open.js";
import { start } from "./program.js";

// Uses REDIS_URL.
async function serve() {
  const program = start("idempotency", [0]);
  const [port] = /\d+$/.exec(await program.line(/^listening/));
  const pay = async (query, key) => {
    const headers = key === undefined ? {} : { "idempotency-key": key };
    const url = `http://127.0.0.1:${port}/payments?${query}`;
    const response = await fetch(url, { method: "POST", headers });
    return { status: response.status, body: await response.json() };
  };
  return { ...program, pay };
}

test("a payment is made once for each key", async () => {
  const [here, there] = await Promise.all([serve(), serve()]);
  const key = randomUUID();
  const backend = open();
  const first = here.pay("amount=12&ms=1500", key);
  const isLocked = () => backend.isLocked({ key: `payment:${key}` });
  await until(isLocked, "the first payment to begin");
  expect(await there.pay("amount=12&ms=1500", key)).toMatchObject({ status: 409 });
  const answer = await first;
  expect(answer).toMatchObject({ status: 200, body: { paid: 12 } });
  expect(await there.pay("amount=12&ms=1500", key)).toEqual(answer);
  expect(await here.pay("amount=99", key)).toMatchObject({ status: 422 });
  expect(await here.pay("amount=12")).toMatchObject({ status: 400 });
  const other = await there.pay("amount=12", randomUUID());
  expect(other.body.at).not.toBe(answer.body.at);
  here.kill("SIGTERM");
  expect(await here.exit()).toMatchObject({ code: 0 });
  await backend.close();
});
