// The stores that contestants share, and counters of the commands that they receive.
import Redis from "ioredis";
import { startProxy } from "../../__test__/postgres/proxy.js";
import { startFirestore, startPostgres, startRedis } from "../../scripts/servers.mjs";
import { temporaryDirectory } from "../../scripts/servers/server.mjs";

/**
 * Each store has a `target` for its contestants. If commands can be counted, it also has `counted()`,
 * which returns another target whose `taken()` tells the number of commands since the last call.
 */
export async function startStores() {
  const redis = await startRedis();
  // Two connections for each process, and some spare ones while they connect.
  const postgres = await startPostgres({ config: { max_connections: 1_000 } });
  const firestore = await startFirestore({ release: true });
  const folder = temporaryDirectory();
  return {
    redis: { target: redis.url, counted: () => countRedis(redis.url) },
    postgres: { target: postgres.url, counted: () => countPostgres(postgres) },
    firestore: { target: firestore.host, counted: () => countFirestore(firestore.host) },
    sqlite: { target: `${folder.path}/locks.db` },
    files: { target: folder.path },
    async stop() {
      await Promise.all([redis.stop(), postgres.stop(), firestore.stop()]);
      folder.remove();
    },
  };
}

/** Counts commands as the server sees them. A script counts as one command. */
export async function countRedis(target) {
  const redis = new Redis(target);
  const monitor = await redis.monitor();
  let count = 0;
  monitor.on("monitor", (_, args, source) => {
    if (source !== "lua") count += 1;
  });
  return {
    target,
    async taken() {
      await redis.ping(); // all earlier commands have been reported by now
      const taken = Math.max(count - 1, 0);
      count = 0;
      return taken;
    },
    stop() {
      monitor.disconnect();
      redis.disconnect();
    },
  };
}

/** Counts simple queries and queries with parameters. */
async function countPostgres({ url, port }) {
  const proxy = await startProxy(port);
  return {
    target: url.replace(port, proxy.port),
    taken: async () => proxy.take().sent.replaceAll(/[^QS]/g, "").length,
    stop: () => proxy.stop(),
  };
}

async function countFirestore(target) {
  return {
    target,
    taken: async () => (await (await fetch(`http://${target}/calls`)).json()).length,
    stop() {},
  };
}
