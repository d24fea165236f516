// The plain servers that all tests share, one line each. If the variable of a server is already set, that
// one is used instead. Tests that need a special server (with TLS, a cluster, one to kill) start it
// themselves.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  libuv,
  nssWrapper,
  requirePrograms,
  startFirestore,
  startPostgres,
  startRedis,
} from "../servers.mjs";
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
  { backend: "sqlite", programs: ["faketime", ...(nssWrapper ? [nssWrapper] : [])] },
];

/** Returns the texts of the files and of all local files that they import. */
function withImports(files) {
  const texts = new Map();
  const open = [...files];
  for (let file = open.pop(); file; file = open.pop()) {
    if (texts.has(file) || !existsSync(file)) continue;
    const text = readFileSync(file, "utf8");
    texts.set(file, text);
    // Skip the modules that start servers: they name all servers, whatever their importers need.
    for (const [, path] of text.matchAll(/(?:from|import) "(\.[^"]+)"/g)) {
      const imported = join(dirname(file), path);
      if (imported.startsWith(join(root, "__test__"))) open.push(imported);
    }
  }
  return [...texts.values()];
}

/**
 * Starts the servers that all tests need, or these files. Returns the variables for the tests, and
 * `stop()`.
 * @param {string[]} [files]
 */
export async function startTestServers(files) {
  const texts = files && withImports(files);
  const needed = servers.filter(({ programs, variable }) => {
    const names = [variable, ...programs].filter(Boolean);
    return texts?.some((text) => names.some((name) => text.includes(name))) ?? true;
  });
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
