// The project's own tests on Windows: in a copy of the project, because the
// dependencies in node_modules belong to a platform too.
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { Failure, npm, root } from "../lib/run.mjs";
import { startRedis } from "../servers.mjs";
import { runToFile } from "./trial.mjs";

/** The contract of the backends that need nothing but a Redis server, which runs outside. */
const FILES = [
  ...["memory", "memory-telemetry", "sqlite", "sqlite-telemetry", "sqlite-default"],
  ...["redis", "redis-telemetry"],
].map((name) => `__test__/contracts/${name}.test.js`);

/**
 * Known to fail under wine, by what wine lacks. Anything else that fails is our fault.
 * @type {Record<string, RegExp>}
 */
const WINE_CANNOT = {};

/** Runs the tests and returns what was seen. */
export async function suite(folder, { addon, node, env, path }) {
  await copyProject(folder);
  const report = join(folder, "report.json");
  rmSync(report, { force: true });
  const redis = await startRedis();
  try {
    const vitest = ["node_modules/vitest/vitest.mjs", "run", "--reporter=json"];
    const program = vitest.map((part, index) => (index ? part : path(join(folder, part))));
    const args = [...program, `--outputFile=${path(report)}`, `--root=${path(folder)}`, ...FILES];
    const variables = {
      ...env,
      REDIS_URL: redis.url,
      SYNCGUARD_ADDON: path(addon),
      // The servers of the other backends are not wanted here.
      SYNCGUARD_TEST_SERVERS: "started",
    };
    const ran = await runToFile([...node, ...args], { folder, env: variables });
    if (!existsSync(report)) throw new Failure(`vitest did not run:\n${ran.text.slice(-2_000)}`);
  } finally {
    await redis.stop();
  }
  return summary(JSON.parse(readFileSync(report, "utf8")));
}

/** Everything but what is made for this platform. */
async function copyProject(folder) {
  const kept = "node_modules";
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(folder)) {
    if (name !== kept) rmSync(join(folder, name), { recursive: true });
  }
  for (const name of readdirSync(root)) {
    if ([kept, "target", ".git"].includes(name)) continue;
    const filter = (source) => !basename(source).endsWith(".node");
    cpSync(join(root, name), join(folder, name), { recursive: true, filter });
  }
  const stamp = join(folder, kept, ".lock");
  const wanted = readFileSync(join(root, "package-lock.json"), "utf8");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return;
  const target = ["--os=win32", "--cpu=x64", "--ignore-scripts"];
  await npm(["ci", ...target, "--no-audit", "--no-fund", "--loglevel=error"], { cwd: folder });
  writeFileSync(stamp, wanted);
}

function summary({ testResults }) {
  const broken = testResults.filter((file) => file.assertionResults.length === 0);
  const tests = testResults.flatMap((file) => file.assertionResults);
  const failed = tests.filter(({ status }) => status === "failed");
  const reasonOf = ({ fullName }) =>
    Object.keys(WINE_CANNOT).find((reason) => WINE_CANNOT[reason].test(fullName));
  const ours = failed.filter((test) => !reasonOf(test));
  if (ours.length || broken.length) {
    const lines = [
      ...broken.map(({ name, message }) => `${name}: ${message}`),
      ...ours.map(({ fullName, failureMessages }) => `${fullName}: ${failureMessages[0]}`),
    ];
    throw new Failure(`Tests failed:\n${lines.join("\n")}`);
  }
  const passed = tests.filter(({ status }) => status === "passed").length;
  const cannot = [...new Set(failed.map(reasonOf))].join(", ");
  return `contract: ${passed} tests passed${failed.length ? `, ${failed.length} that wine cannot do (${cannot})` : ""}`;
}
