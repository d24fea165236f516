// A primary is demoted while its connections stay open, behind a name that leads to the new one. The
// backend reconnects, however the server words its refusal.

import { createHash } from "node:crypto";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { freePort, startRedis } from "../../scripts/servers.mjs";
import { rejection } from "../contracts/setup.js";
import { open, prefix } from "./open.js";

const ACQUIRES = 40;
const READONLY = "-READONLY You can't write against a read only replica.";
const LINE = 34;

const stops = [];
afterEach(() => Promise.all(stops.splice(0).map((stop) => stop())));

async function redis() {
  const server = await startRedis();
  stops.push(server.stop);
  return server;
}

/**
 * Returns where the first request or reply in `bytes` ends. Undefined if it is not complete. Adds its
 * texts to `words`.
 */
function endOf(bytes, at = 0, words = []) {
  const lineEnd = bytes.indexOf("\r\n", at);
  if (lineEnd < 0) return undefined;
  const kind = String.fromCharCode(bytes[at]);
  const number = Number(bytes.toString("latin1", at + 1, lineEnd));
  let end = lineEnd + 2;
  if (kind === "$" && number >= 0) {
    words.push(bytes.toString("utf8", end, end + number));
    end += number + 2;
  }
  for (let part = 0; kind === "*" && part < number; part++) {
    end = endOf(bytes, end, words);
    if (end === undefined) return undefined;
  }
  return end <= bytes.length ? end : undefined;
}

/** Passes what a socket receives to `take`, one request or reply at a time. */
function receive(socket, take) {
  let unread = Buffer.alloc(0);
  socket.on("data", (data) => {
    unread = Buffer.concat([unread, data]);
    for (;;) {
      const words = [];
      const end = endOf(unread, 0, words);
      if (end === undefined) return;
      take(unread.subarray(0, end), words);
      unread = unread.subarray(end);
    }
  });
}

/** Returns the number of requests that share a script, from its arguments. Undefined for one request. */
function together(args) {
  if (!/^[123]$/.test(args[0])) return undefined;
  let calls = 0;
  for (let at = 0; at < args.length; at += args[at] === "3" ? 7 : 3) calls += 1;
  return calls;
}

/**
 * Returns the answer of a replica of Redis 6, on which scripts may not write. An error ends a script
 * unless the script catches it, and then the text is the script's.
 */
function asReplicaOfRedis6([command, script, numKeys, ...rest], refused) {
  const name = command.toUpperCase();
  if (name !== "EVAL" && name !== "EVALSHA") return name === "PING" ? "+PONG\r\n" : "+OK\r\n";
  const sha = name === "EVAL" ? createHash("sha1").update(script).digest("hex") : script;
  const calls = together(rest.slice(Number(numKeys)));
  refused.push(calls ?? 1);
  if (calls === undefined) {
    return `-ERR Error running script (call to f_${sha}): @user_script:${LINE}: @user_script: ${LINE}: ${READONLY} \r\n`;
  }
  return `*${calls}\r\n${`-ERR @user_script: ${LINE}: ${READONLY}  \r\n`.repeat(calls)}`;
}

/**
 * Opens an address that leads to the server at `port`, and after a failover to another one. It forwards
 * the requests in flight together, and their replies, too.
 */
async function stableName(port) {
  let demoted;
  let connections = 0;
  const sockets = new Set();
  const server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    const number = ++connections;
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => other.destroy());
    }
    let [requests, replies, expected] = [[], [], 0];
    const next = () => {
      const some = requests.splice(0);
      if (demoted !== undefined && number <= demoted.connections) {
        client.write(some.map(({ words }) => demoted.answer(words)).join(""));
      } else if (some.length > 0) {
        expected = some.length;
        upstream.write(Buffer.concat(some.map(({ bytes }) => bytes)));
      }
    };
    receive(client, (bytes, words) => {
      requests.push({ bytes, words });
      if (expected === 0) next();
    });
    receive(upstream, (bytes) => {
      replies.push(bytes);
      if (replies.length < expected) return;
      expected = 0;
      client.write(Buffer.concat(replies.splice(0)));
      next();
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  stops.push(() => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  });
  return {
    url: `redis://127.0.0.1:${server.address().port}`,
    /** Leads new connections to `to`. On existing connections, `answer` refuses. */
    failOver(to, answer) {
      port = to;
      demoted = answer && { answer, connections };
    },
  };
}

/** Acquires each of many keys once: one after the other, and with many requests in flight. */
const LOADS = [
  [
    "one after the other",
    async (acquire, failOver) => {
      for (let index = 0; index < 2 * ACQUIRES; index++) {
        if (index === ACQUIRES) await failOver();
        await acquire(index);
      }
    },
  ],
  [
    "many at once, which share scripts",
    async (acquire, failOver) => {
      const rounds = 2 * ACQUIRES;
      let done = 0;
      let failedOver;
      const worker = async (_, number) => {
        for (let round = 0; round < rounds; round++) {
          await failedOver;
          await acquire(number * rounds + round);
          if (++done === (ACQUIRES * rounds) / 2) failedOver = failOver();
        }
      };
      await Promise.all(Array.from({ length: ACQUIRES }, worker));
    },
  ],
];

describe.each(LOADS)("acquires %s", (_, load) => {
  /** Calls `demote` half-way. Every acquire must succeed. */
  const survive = async (demote) => {
    const [old, fresh] = await Promise.all([redis(), redis()]);
    const name = await stableName(old.port);
    const backend = open({ target: name.url, keyPrefix: prefix() });
    stops.push(() => backend.close());
    const failed = [];
    const acquire = async (index) => {
      const acquired = backend.acquire({ key: `k:${index}`, ttlMs: 60_000 });
      const result = await acquired.catch((error) => ({ ok: false, error }));
      if (!result.ok) failed.push(result.error ?? "locked");
    };
    await load(acquire, () => demote(old, fresh, name));
    expect(failed).toEqual([]);
    // The second half of the locks is on the new primary.
    expect(Number(await fresh.cli("dbsize"))).toBeGreaterThanOrEqual(3 * ACQUIRES);
  };

  test("a primary of Redis 6", async () => {
    const refused = [];
    await survive((_, fresh, name) => {
      name.failOver(fresh.port, (request) => asReplicaOfRedis6(request, refused));
    });
    expect(refused.length).toBeGreaterThan(0);
    expect(Math.max(...refused) > 1).toBe(load === LOADS[1][1]);
  });

  test("a primary of the Redis that is installed", async () => {
    await survive(async (old, fresh, name) => {
      name.failOver(fresh.port);
      await old.cli("replicaof", "127.0.0.1", String(fresh.port));
    });
  });
});

test("a server that stays a replica is reported after connectTimeoutMs", async () => {
  const replica = await redis();
  await replica.cli("replicaof", "127.0.0.1", String(await freePort()));
  const backend = open({ target: replica.url, connectTimeoutMs: 300 });
  stops.push(() => backend.close());
  const error = await rejection(backend.acquire({ key: "k", ttlMs: 1000 }));
  expect(error.code).toBe("ServiceUnavailable");
  expect(error.message).toMatch(/is a replica .* Gave up after .* \(connectTimeoutMs\)$/);
});
