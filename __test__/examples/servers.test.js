// Runs two servers of the examples for Express and Fastify, which share their locks.

import { randomUUID } from "node:crypto";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { until } from "../fixtures/wait.js";
import { open } from "../redis/open.js";
import { start } from "./program.js";

const backend = open({ target: process.env.REDIS_URL });
afterAll(() => backend.close());

describe.each(["express", "fastify"])("%s", (example) => {
  let here, there;
  beforeEach(async () => {
    [here, there] = await Promise.all([serve(), serve()]);
  });

  async function serve(url = process.env.REDIS_URL) {
    const program = start(example, [0], { SYNCGUARD_URL: url });
    const [port] = /\d+$/.exec(await program.line(/^listening/));
    const post = async (path, options) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, {
        method: "POST",
        ...options,
      });
      const retryAfter = response.headers.get("retry-after");
      return { status: response.status, body: await response.json(), retryAfter };
    };
    return { ...program, post };
  }

  const untilLocked = (key) =>
    until(() => backend.isLocked({ key }), "the request to hold the lock");

  test("a request is refused while another holds the lock", async () => {
    const name = randomUUID();
    const first = here.post(`/reports/${name}?ms=1500`);
    await untilLocked(`report:${name}`);
    expect(await there.post(`/reports/${name}`)).toMatchObject({ status: 409 });
    expect(await first).toMatchObject({ status: 200, body: { written: true } });
    expect(await there.post(`/reports/${name}?ms=0`)).toMatchObject({ status: 200 });
  });

  test("requests wait for their turn", async () => {
    const path = `/accounts/${randomUUID()}/pay?ms=100`;
    const answers = await Promise.all([here, there, here].map((server) => server.post(path)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(answers.map(({ body }) => Number(body.fence)).sort()).toEqual([1, 2, 3]);
  });

  test("a request that waits for too long gets 503 and a Retry-After header", async () => {
    const id = randomUUID();
    const first = here.post(`/accounts/${id}/pay?ms=3500`);
    await untilLocked(`account:${id}`);
    expect(await there.post(`/accounts/${id}/pay`)).toMatchObject({ status: 503, retryAfter: "1" });
    expect(await first).toMatchObject({ status: 200, body: { paid: true } });
  });

  test("a request gets 503 if the store is down", async () => {
    const server = await serve("redis://127.0.0.1:1");
    const answer = await server.post(`/reports/${randomUUID()}`);
    expect(answer).toMatchObject({ status: 503, retryAfter: "1" });
    expect(server.lines.join("\n")).toContain("127.0.0.1:1");
  });

  test("a request releases its lock when its client disconnects", async () => {
    const id = randomUUID();
    const client = new AbortController();
    const first = here.post(`/accounts/${id}/pay?ms=350000`, { signal: client.signal });
    await untilLocked(`account:${id}`);
    const second = there.post(`/accounts/${id}/pay?ms=0`);
    client.abort();
    await expect(first).rejects.toThrow("aborted");
    expect(await second).toMatchObject({ status: 200 });
    here.kill("SIGTERM");
    expect(await here.exit()).toEqual({ code: 0, lines: [expect.stringMatching(/^listening/)] });
  });

  test("pending requests are answered when the server shuts down", async () => {
    const id = randomUUID();
    const last = here.post(`/accounts/${id}/pay?ms=1000`);
    await untilLocked(`account:${id}`);
    here.kill("SIGTERM");
    expect(await last).toMatchObject({ status: 200 });
    expect(await here.exit()).toMatchObject({ code: 0 });
    expect(await backend.isLocked({ key: `account:${id}` })).toBe(false);
  });
});
