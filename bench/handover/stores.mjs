// The stores that contestants share, and how many commands they are sent.
import Redis from "ioredis";
import { startProxy } from "../../__test__/postgres/proxy.js";
import { startFirestore, startPostgres, startRedis } from "../../scripts/servers.mjs";
import { temporaryDirectory } from "../../scripts/servers/server.mjs";

/**
 * Each has a `target` for its contestants and, if commands can be counted, `counted()`: another
 * target for which `taken()` tells how many there were since the last time.
 */
export async function startStores() {
  const redis = await startRedis();
  // Two connections for each of the processes, and some while they are made.
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

/** As the server sees them; what a script does is part of its command. */
async function countRedis(target) {
  const redis = new Redis(target);
  const monitor = await redis.monitor();
  let count = 0;
  monitor.on("monitor", (_, args, source) => {
    if (source !== "lua") count += 1;
  });
  return {
    target,
    async taken() {
      await redis.ping(); // what came before it has been told
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

/** Queries, simple ones or with parameters. */
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
