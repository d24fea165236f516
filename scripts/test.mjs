// npm test: builds what the tests need and runs them.
//   npm test                     the Rust and the JavaScript tests
//   npm run test:all             all of these, fuzzing and the long tests
//   npm test -- <vitest args>    only some JavaScript tests, e.g. one file, with the servers that they
//                                need. `npm run test:all -- <vitest args>` includes the long ones
//   npm test -- --rust <args>    only the Rust tests, e.g. one name
//   npm test -- --without-servers    all tests that need no server; lists what it left out
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { promisify } from "node:util";
import { fuzz } from "./lib/fuzz.mjs";
import { cargo, failTogether, main, root, tool } from "./lib/run.mjs";
import { setUp } from "./lib/setup.mjs";
import { startTestServers } from "./lib/test-servers.mjs";
import { leftOut, RUST_LEFT_OUT } from "./lib/without-servers.mjs";
import { isLong } from "./lib/test-sizes.mjs";

const args = process.argv.slice(2);
const takeFlag = (name) => args[0] === name && args.shift() === name;
const all = takeFlag("--all");
const withoutServers = takeFlag("--without-servers");
const onlyRust = takeFlag("--rust");
const isWhole = args.length === 0 && !onlyRust;
const reports = [];

async function rustTests(env) {
  const names = onlyRust ? args : [];
  const skip = withoutServers ? RUST_LEFT_OUT.flatMap((name) => ["--skip", name]) : [];
  // Run more tests at a time than there are processors, because most of them wait.
  const threads = { RUST_TEST_THREADS: "8", ...process.env };
  await cargo(["test", ...names, ...(skip.length ? ["--", ...skip] : [])], {
    env: { ...threads, ...env },
  });
  // Select the tests with --test: with only a name, cargo would also compile the unit tests.
  await cargo(["test", "--package", "syncguard-models", "--test", "*", ...names]);
}

const fuzzing = () => fuzz();

const javascriptTests = (size) => async (env) => {
  mkdirSync(join(root, "target"), { recursive: true });
  const report = join(root, "target", size === "long" ? "vitest-long.json" : "vitest.json");
  rmSync(report, { force: true });
  reports.push(report);
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const skip = withoutServers ? leftOut().map((glob) => `--exclude=${glob}`) : [];
  const run = ["run", ...reporters, ...skip, ...args];
  const plain = process.stdout.isTTY ? {} : { NO_COLOR: "1" };
  await tool("vitest/vitest.mjs", run, {
    env: { ...env, ...plain, SYNCGUARD_TEST_SERVERS: "started", SYNCGUARD_TESTS: size },
  });
};

/** Returns the files that vitest would run with our arguments. */
async function selectedFiles() {
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  const list = [vitest, "list", "--filesOnly", ...args, "--json"];
  const env = { ...process.env, SYNCGUARD_TEST_SERVERS: "started", SYNCGUARD_TESTS: "all" };
  const { stdout } = await promisify(execFile)(process.execPath, list, { cwd: root, env });
  return JSON.parse(stdout).map(({ file }) => file);
}

/**
 * Leaves out the long tests that the arguments select, unless this is `npm run test:all` or an
 * argument names one of them.
 */
async function selection() {
  const files = await selectedFiles();
  if (all || args.some((arg) => arg.includes(".long"))) return { files, size: "all" };
  const long = files.filter(isLong).map((file) => relative(root, file));
  if (long.length) console.error(`Left out, run them with npm run test:all: ${long.join(", ")}`);
  return { files: files.filter((file) => !isLong(file)), size: "short" };
}

/** Prints the names of the failed tests and a summary line, whatever the reporter prints. */
function summarize() {
  // If the report is missing, the run was interrupted before it had results.
  const runs = reports.filter(existsSync).map((file) => JSON.parse(readFileSync(file, "utf8")));
  if (!runs.length) return;
  let [passed, failed] = [0, 0];
  for (const { numPassedTests, numFailedTests, testResults } of runs) {
    // A file that could not be loaded has no tests.
    const broken = testResults.filter(
      (file) => file.status === "failed" && !file.assertionResults.length,
    );
    for (const { name } of broken) console.log(`failed: ${relative(root, name)}`);
    for (const { name, assertionResults } of testResults) {
      for (const { fullName, status } of assertionResults) {
        if (status === "failed") console.log(`failed: ${relative(root, name)}: ${fullName}`);
      }
    }
    passed += numPassedTests;
    failed += numFailedTests + broken.length;
  }
  console.log(`JavaScript: ${passed} passed, ${failed} failed`);
}

function noServers() {
  console.error(
    `Left out because they need servers: ${[...RUST_LEFT_OUT, ...leftOut()].join(", ")}`,
  );
  return { env: {}, stop: async () => {} };
}

await main(async () => {
  // All tests together run with the optimised addon that is published. Fewer tests use an
  // unoptimised one, which is built faster.
  await setUp({ release: isWhole && all, tests: isWhole || onlyRust });
  const { files, size } = isWhole || onlyRust ? {} : await selection();
  const servers = withoutServers ? noServers() : await startTestServers(files);
  const suites = onlyRust
    ? [rustTests]
    : size
      ? [javascriptTests(size)]
      : all
        ? [rustTests, fuzzing, javascriptTests("short"), javascriptTests("long")]
        : [rustTests, javascriptTests("short")];
  const failures = [];
  try {
    for (const suite of suites) {
      try {
        await suite(servers.env);
      } catch (error) {
        failures.push(error);
        if (error.exitCode === 130) break; // Ctrl-C ends the run, but a failed suite does not.
      }
    }
  } finally {
    await servers.stop();
    summarize();
  }
  failTogether(failures);
});
