import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort } from "./ports.mjs";
import { program } from "./programs.mjs";
import { startRedis } from "./redis.mjs";
import { controls, eventually, Server, temporaryDirectory } from "./server.mjs";

const NAME = "mymaster";

/** Starts a master, a replica and three sentinels that watch them. */
export async function startRedisSentinel({ acl, config = {} } = {}) {
  const auth = acl && { masteruser: acl.username, masterauth: JSON.stringify(acl.password) };
  const common = { "repl-diskless-sync-delay": 0, ...auth, ...config };
  const started = [];
  const keep = (server) => (started.push(server), server);
  const stop = () => Promise.all(started.map((server) => server.stop()));
  try {
    const master = keep(await startRedis({ acl, config: common }));
    const replica = keep(
      await startRedis({ acl, config: { ...common, replicaof: `127.0.0.1 ${master.port}` } }),
    );
    await eventually("the replica follows the master", async () =>
      /master_link_status:up/.test(await replica.cli("info", "replication")),
    );
    const sentinels = await Promise.all(
      Array.from({ length: 3 }, async () => keep(await startSentinel(master, acl))),
    );
    await eventually("the sentinels know each other and the replica", async () => {
      const answers = await Promise.all(sentinels.map((one) => one.cli("info", "sentinel")));
      return answers.every((text) => /status=ok,.*slaves=1,sentinels=3/.test(text));
    });
    const nodes = [master, replica];
    return {
      name: NAME,
      master,
      replica,
      nodes,
      sentinels,
      stop,
      /** Returns the port of the current master, as seen by the first sentinel that answers. */
      masterPort: () => masterPort(sentinels),
      /** Makes the sentinels promote the other node and waits until they agree. */
      async failover() {
        const before = await masterPort(sentinels);
        await sentinels[0].cli("sentinel", "failover", NAME);
        await eventually("all sentinels report the new master", async () => {
          const ports = await Promise.all(sentinels.map((one) => masterPort([one])));
          return ports.every((port) => port !== before);
        });
      },
      kill: () => Promise.all(started.map((server) => server.kill())),
      async restart() {
        for (const server of started) await server.restart();
      },
      suspend: () => started.forEach((server) => server.suspend()),
      resume: () => started.forEach((server) => server.resume()),
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startSentinel(master, acl) {
  const directory = temporaryDirectory();
  const port = await freePort();
  const lines = [
    "bind 127.0.0.1",
    `port ${port}`,
    `dir ${directory.path}`,
    `sentinel monitor ${NAME} 127.0.0.1 ${master.port} 2`,
    `sentinel down-after-milliseconds ${NAME} 1000`,
    `sentinel failover-timeout ${NAME} 3000`,
    ...(acl
      ? [
          `sentinel auth-user ${NAME} ${acl.username}`,
          `sentinel auth-pass ${NAME} ${JSON.stringify(acl.password)}`,
        ]
      : []),
  ];
  const file = join(directory.path, "sentinel.conf");
  writeFileSync(file, `${lines.join("\n")}\n`, { mode: 0o600 });
  const server = new Server("redis-sentinel", program("redis-sentinel"), [file], {
    ready: /\+monitor master/,
  });
  await server.start();
  return {
    server,
    host: "127.0.0.1",
    port,
    async cli(...args) {
      const all = ["-p", String(port), ...args];
      const { stdout } = await promisify(execFile)(program("redis-cli"), all, { encoding: "utf8" });
      return stdout.trimEnd();
    },
    ...controls(server, { directory }),
  };
}

async function masterPort(sentinels) {
  const answer = await sentinels[0].cli("sentinel", "get-master-addr-by-name", NAME);
  return Number(answer.split("\n")[1]);
}
