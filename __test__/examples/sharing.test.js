// The examples of shared keys and of several keys, each with several processes.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { run, start } from "./program.js";

const ends = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

const folder = () => {
  const path = mkdtempSync(join(tmpdir(), "syncguard-example-"));
  ends.push(() => rmSync(path, { recursive: true, force: true }));
  return path;
};
const env = { SYNCGUARD_URL: process.env.REDIS_URL };

describe("api-limit", () => {
  const LIMIT = 3;

  /** An API that refuses calls beyond its limit, and counts those that are under way. */
  async function startApi() {
    const seen = { most: 0, refused: 0, numbers: [] };
    let underWay = 0;
    const server = createServer(async (request, response) => {
      underWay += 1;
      seen.most = Math.max(seen.most, underWay);
      await sleep(20);
      underWay -= 1;
      const isRefused = seen.most > LIMIT;
      if (isRefused) seen.refused += 1;
      else seen.numbers.push(new URL(request.url, "http://api").searchParams.get("number"));
      response.writeHead(isRefused ? 429 : 200).end("{}");
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    ends.push(() => new Promise((resolve) => server.close(resolve)));
    return { seen, url: `http://127.0.0.1:${server.address().port}/charges` };
  }

  test("processes together never call more often at a time than the API allows", async () => {
    const { seen, url } = await startApi();
    const programs = [1, 2, 3].map(() => run("api-limit", [url, 12], env));
    for (const { code, lines } of await Promise.all(programs)) {
      expect(lines).toEqual(["12 of 12 calls succeeded"]);
      expect(code).toBe(0);
    }
    expect(seen).toMatchObject({ most: LIMIT, refused: 0 });
    expect(seen.numbers).toHaveLength(36);
  });

  test("a call that fails is reported, and its place goes to the next one", async () => {
    const program = await run("api-limit", ["http://127.0.0.1:1/charges", 5], env);
    expect(program.code).toBe(1);
    expect(program.lines.at(-1)).toBe("0 of 5 calls succeeded");
  });
});

describe("shards", () => {
  const worker = (queue) => start("shards", [queue, 2], env);
  const works = (slot) => new RegExp(`^working on shard ${slot} of 2, fence \\d{15}$`);

  /** Starts two workers and one that stands by. */
  async function startThree() {
    const queue = randomUUID();
    const first = worker(queue);
    await first.line(works(0));
    const second = worker(queue);
    await second.line(works(1));
    const third = worker(queue);
    await third.line(/standing by/);
    return [first, second, third];
  }

  test("another process takes over the number of a worker that is killed", async () => {
    const [first, second, third] = await startThree();
    expect(third.lines).toEqual(["standing by"]);
    first.kill("SIGKILL");
    await third.line(works(0));
    expect(second.lines).toHaveLength(2);
  });

  test("another process takes over from a worker that shuts down, and one that stands by can end", async () => {
    const [first, second, third] = await startThree();
    second.kill("SIGTERM");
    expect((await second.exit()).code).toBe(0);
    expect(second.lines.at(-1)).toBe("stopped working on shard 1");
    await third.line(works(1));
    const fourth = worker(randomUUID());
    await fourth.line(works(0));
    const idle = [first, third];
    for (const program of idle) program.kill("SIGTERM");
    for (const program of idle) expect((await program.exit()).code).toBe(0);
  });

  test("a worker that was suspended for too long lets go of its number, and joins again", async () => {
    const [first, second, third] = await startThree();
    first.kill("SIGSTOP");
    await third.line(works(0));
    first.kill("SIGCONT");
    await first.line(/stopped working on shard 0/);
    second.kill("SIGKILL");
    await first.line(works(1));
  });
});

test("readers-writer: nobody reads a half rebuilt index", async () => {
  const index = folder();
  const program = (...args) => run("readers-writer", [args[0], index, args[1]], env);
  expect(await program("rebuild", 1)).toEqual({ code: 0, lines: ["rebuilt as version 1"] });
  const reading = [1, 2, 3].map(() => program("read", 25));
  const versions = [2, 3];
  for (const version of versions) expect((await program("rebuild", version)).code).toBe(0);
  for (const { code, lines } of await Promise.all(reading)) {
    expect(code).toBe(0);
    expect(lines).toHaveLength(25);
    const read = lines.map((line) => Number(/^read version (\d)$/.exec(line)[1]));
    expect(read).toEqual(read.toSorted((a, b) => a - b));
  }
  expect((await program("read", 1)).lines).toEqual(["read version 3"]);
});

test("transfer: opposite transfers do not block each other, and no money is lost", async () => {
  const accounts = folder();
  const program = async (...args) => {
    const { code, lines } = await run("transfer", [args[0], accounts, ...args.slice(1)], env);
    return { code, printed: lines.join("\n") };
  };
  const names = ["alice", "bob", "carol"];
  const opened = await Promise.all(names.map((account) => program("open", account, 1_000)));
  for (const { code } of opened) expect(code).toBe(0);
  const sent = await Promise.all([
    program("send", "alice", "bob", 5, 40),
    program("send", "bob", "alice", 3, 40),
    program("send", "carol", "alice", 2, 40),
    program("send", "bob", "carol", 1, 40),
  ]);
  for (const { code } of sent) expect(code).toBe(0);
  expect(sent[0].printed).toBe("sent 200 from alice to bob");
  const balances = await Promise.all(names.map((account) => program("balance", account)));
  expect(balances.map(({ printed }) => Number(printed))).toEqual([
    1_000 - 200 + 120 + 80,
    1_000 + 200 - 120 - 40,
    1_000 - 80 + 40,
  ]);
  const refused = await Promise.all([
    program("send", "alice", "bob", 5_000),
    program("send", "alice", "alice", 1),
    program("send", "alice", "dave", 1),
  ]);
  expect(refused).toEqual([
    { code: 1, printed: "alice has only 1000" },
    { code: 1, printed: "the two accounts are the same" },
    { code: 1, printed: "there is no account dave" },
  ]);
});
