// Runs smoke.mjs with an addon and real servers.
import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { manifest } from "../lib/packages.mjs";
import { Failure, root, run } from "../lib/run.mjs";
import { RUST_LEFT_OUT } from "../lib/without-servers.mjs";
import { startPostgres, startRedis } from "../servers.mjs";
import { home } from "./toolbox.mjs";

const LIMIT_MS = 20 * 60_000;

/**
 * @param {string} name of the platform
 * @param {object} options
 * @param {string} options.addon the path of the addon
 * @param {string[]} options.node the command that starts Node.js on that platform
 * @param {string[]} [options.inside] the same command, for a program that already runs there
 * @param {Record<string, string>} [options.env]
 * @param {(path: string) => string} [options.path] translates a path of this system for that Node.js
 * @param {boolean} [options.opensLater] see smoke.mjs
 * @returns {Promise<string>} what was seen
 */
export async function smoke(name, options) {
  const { addon, node, inside = node, env, path = (file) => file, opensLater } = options;
  const folder = freshFolder(name, "smoke");
  const servers = await Promise.all([startRedis(), startRedis({ tls: true }), startPostgres()]);
  const [redis, redisTls, postgres] = servers;
  const job = join(folder, "job.json");
  const description = {
    package: manifest().name,
    node: inside,
    folder: path(folder),
    redis: redis.url,
    redisTls: { url: redisTls.url, ca: readFileSync(redisTls.tls.files.ca, "utf8") },
    postgres: postgres.url,
    opensLater,
  };
  writeFileSync(job, JSON.stringify(description));
  const program = path(join(root, "scripts", "platforms", "smoke.mjs"));
  try {
    const where = { folder, env: { ...env, SYNCGUARD_ADDON: path(addon) } };
    const seen = verdict(await runToFile([...node, program, path(job)], where));
    if (!opensLater) return seen;
    openToAll(join(folder, "state"));
    const { failure, text } = await runToFile([...node, program, path(job), "refusal"], where);
    if (failure) throw new Failure(`default SQLite file, open to all: ${text}`);
    return `${seen}; default SQLite file, open to all: refused`;
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

/** Opens the folder, which nobody else could change until now, to all users. */
function openToAll(folder) {
  const mode = statSync(folder).mode & 0o777;
  if (mode & 0o022) throw new Failure(`The default directory has the mode ${mode.toString(8)}.`);
  chmodSync(folder, 0o777);
}

/** Runs the core's own tests without those that need servers. `command` runs the test program. */
export async function coreTests(name, command, env) {
  const folder = freshFolder(name, "core-tests");
  const skip = RUST_LEFT_OUT.flatMap((each) => ["--skip", each]);
  const { text, failure } = await runToFile([...command, ...skip], { folder, env });
  const passed = /test result: ok\. (\d+) passed/.exec(text)?.[1];
  if (failure || !passed) throw new Failure(`The core's own tests failed:\n${text.slice(-4_000)}`);
  return `core: ${passed} tests`;
}

/** Creates an empty folder below the platform's folder. */
export function freshFolder(name, purpose) {
  const folder = join(home, name, purpose);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return folder;
}

/** Runs a program with files as its standard streams, and returns its output. */
export async function runToFile([command, ...args], { folder, env }) {
  const file = join(folder, "output.txt");
  const output = openSync(file, "w");
  let failure;
  try {
    await run(command, args, { env, stdio: ["ignore", output, output], timeout: LIMIT_MS });
  } catch (error) {
    if (!(error instanceof Failure) || error.exitCode === 130) throw error;
    failure = error;
  } finally {
    closeSync(output);
  }
  return { text: readFileSync(file, "utf8"), failure };
}

/** Parses the program's output: one line per check. All other lines are complaints. */
function verdict({ text, failure }) {
  const lines = text.split(/\r?\n/).filter(Boolean);
  const results = lines
    .filter((line) => line.startsWith('{"check"'))
    .map((line) => JSON.parse(line));
  const failed = results.filter(({ ok }) => !ok);
  if (failed.length || failure || results.length === 0) {
    const details = failed.map(({ check, seen }) => `${check}: ${seen}`);
    throw new Failure([failure?.message, ...details, ...(failed.length ? [] : lines)].join("\n"));
  }
  return results.map(({ check, seen }) => `${check}: ${seen}`).join("; ");
}
