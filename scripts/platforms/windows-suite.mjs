// Runs the project's own tests on Windows, in a copy of the project, because some dependencies in
// node_modules are specific to a platform.
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

/** Returns filters that match the tests of these names, including the long ones. */
const files = (folder, ...names) => names.map((name) => `__test__/${folder}/${name}.`);
const STORES = ["memory", "sqlite", "redis", "custom-backend"];

/** The tests that need no server but Redis, which runs outside wine, and no feature that wine lacks. */
const FILES = [
  ...files("contracts", ...STORES.flatMap((name) => [name, `${name}-telemetry`])),
  ...files("contracts", "sqlite-default", "handles", "lock-release"),
  ...files("handover", "sqlite"),
  ...files("sqlite", "copies", "files", "target", "threads"),
  "__test__/unit/",
  "__test__/property/",
];

/** Tests of __test__/sqlite that are not run, and why. */
const WINE_CANNOT =
  "not run: sqlite/kill (wine cannot start 1,000 processes), sqlite/processes (wine loses lines that several processes append to a file)";

/** Runs the tests and returns a summary. */
export async function suite(folder, { addon, node, env, path }) {
  await copyProject(folder);
  const report = join(folder, "report.json");
  rmSync(report, { force: true });
  const redis = await startRedis();
  try {
    const vitest = path(join(folder, "node_modules", "vitest", "vitest.mjs"));
    const options = ["--reporter=json", `--outputFile=${path(report)}`, `--root=${path(folder)}`];
    const variables = {
      ...env,
      REDIS_URL: redis.url,
      SYNCGUARD_ADDON: path(addon),
      // Do not use servers of the other backends.
      SYNCGUARD_TEST_SERVERS: "started",
      SYNCGUARD_TESTS: "all",
    };
    const command = [...node, vitest, "run", ...options, ...FILES];
    const ran = await runToFile(command, { folder, env: variables });
    if (!existsSync(report)) throw new Failure(`vitest did not run:\n${ran.text.slice(-2_000)}`);
  } finally {
    await redis.stop();
  }
  return summary(JSON.parse(readFileSync(report, "utf8")));
}

/** Copies everything but files that are built for this platform. */
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
  const complaints = testResults.flatMap(({ name, message, assertionResults }) => {
    if (assertionResults.length === 0) return [`${name}: ${message}`];
    const failed = assertionResults.filter(({ status }) => status === "failed");
    return failed.map(({ fullName, failureMessages }) => `${fullName}: ${failureMessages[0]}`);
  });
  if (complaints.length) throw new Failure(`Tests failed:\n${complaints.join("\n")}`);
  const tests = testResults.flatMap((file) => file.assertionResults);
  const passed = tests.filter(({ status }) => status === "passed").length;
  return `${passed} tests of vitest, the contract among them; ${WINE_CANNOT}`;
}
