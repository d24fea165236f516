// The plain servers that all tests share, one line each. A variable that is
// already set names a server to use instead. Servers of a special kind (TLS,
// cluster, to be killed) are started by the tests that need them.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { libuv, requirePrograms, startFirestore, startPostgres, startRedis } from "../servers.mjs";
import { root } from "./run.mjs";

const redis = ["redis-server", "redis-cli", "redis-sentinel", "openssl", libuv];
const postgres = ["postgres", "initdb", "psql", "pgbouncer", "openssl"];
const servers = [
  { backend: "redis", programs: redis, variable: "REDIS_URL", start: startRedis },
  { backend: "postgres", programs: postgres, variable: "POSTGRES_URL", start: startPostgres },
  {
    backend: "firestore",
    programs: ["faketime"],
    variable: "FIRESTORE_EMULATOR_HOST",
    start: startFirestore,
  },
  { backend: "sqlite", programs: ["faketime"] },
];

/** Starts what is needed; returns the variables for the tests and `stop()`. */
export async function startTestServers() {
  const needed = servers.filter(({ backend }) => existsSync(join(root, "js", `${backend}.js`)));
  requirePrograms([...new Set(needed.flatMap(({ programs }) => programs))]);
  const env = {};
  const started = [];
  const stop = () => Promise.all(started.map((server) => server.stop()));
  try {
    for (const { variable, start } of needed) {
      if (!variable || process.env[variable]) continue;
      const server = await start();
      started.push(server);
      env[variable] = server.url ?? server.host;
    }
  } catch (error) {
    await stop();
    throw error;
  }
  if (process.env.SYNCGUARD_EMULATOR) env.SYNCGUARD_EMULATOR = process.env.SYNCGUARD_EMULATOR;
  return { env, stop };
}
