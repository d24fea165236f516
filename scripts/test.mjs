// npm test: everything from set-up to the last test.
//   npm test                     the Rust and the JavaScript tests, and a little fuzzing
//   npm test -- <vitest args>    only the JavaScript tests, e.g. one file: with the servers that these
//                                need, and an addon that is quicker to build
//   npm test -- --rust <args>    only the Rust tests, e.g. one name
//   npm test -- --without-servers    both, less what needs a server; says what it left out
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { promisify } from "node:util";
import { fuzz } from "./lib/fuzz.mjs";
import { cargo, failTogether, main, root, tool } from "./lib/run.mjs";
import { setUp } from "./lib/setup.mjs";
import { startTestServers } from "./lib/test-servers.mjs";
import { leftOut, RUST_LEFT_OUT } from "./lib/without-servers.mjs";

const args = process.argv.slice(2);
const withoutServers = args[0] === "--without-servers";
if (withoutServers) args.shift();
const onlyRust = args[0] === "--rust";
const report = join(root, "target", "vitest.json");

async function rustTests(env) {
  const names = onlyRust ? args.slice(1) : [];
  const skip = withoutServers ? RUST_LEFT_OUT.flatMap((name) => ["--skip", name]) : [];
  await cargo(["test", ...names, ...(skip.length ? ["--", ...skip] : [])], { env });
  // Named: with a name to look for cargo would also compile the sources' own tests.
  await cargo(["test", "--package", "syncguard-models", "--test", "*", ...names]);
}

const fuzzing = () => fuzz();

async function javascriptTests(env) {
  mkdirSync(join(root, "target"), { recursive: true });
  rmSync(report, { force: true });
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const skip = withoutServers ? leftOut().map((glob) => `--exclude=${glob}`) : [];
  const run = ["run", ...reporters, ...skip, ...args];
  const plain = process.stdout.isTTY ? {} : { NO_COLOR: "1" };
  try {
    await tool("vitest/vitest.mjs", run, {
      env: { ...env, ...plain, SYNCGUARD_TEST_SERVERS: "started" },
    });
  } finally {
    summarize();
  }
}

/** The files that vitest would run with our arguments. */
async function selectedFiles() {
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  const list = [vitest, "list", "--filesOnly", ...args, "--json"];
  const env = { ...process.env, SYNCGUARD_TEST_SERVERS: "started" };
  const { stdout } = await promisify(execFile)(process.execPath, list, { cwd: root, env });
  return JSON.parse(stdout).map(({ file }) => file);
}

/** What failed by name, and one plain closing line, whatever the reporter prints. */
function summarize() {
  if (!existsSync(report)) return; // Interrupted before there was anything to count.
  const { numPassedTests, numFailedTests, testResults } = JSON.parse(readFileSync(report, "utf8"));
  // A file that could not even be loaded has no test to count.
  const broken = testResults.filter(
    (file) => file.status === "failed" && !file.assertionResults.length,
  );
  for (const { name, assertionResults } of testResults) {
    const failed = assertionResults.filter(({ status }) => status === "failed");
    for (const { fullName } of failed) console.log(`failed: ${relative(root, name)}: ${fullName}`);
  }
  console.log(`JavaScript: ${numPassedTests} passed, ${numFailedTests + broken.length} failed`);
}

async function neededServers(isWhole) {
  if (withoutServers) return noServers();
  return startTestServers(isWhole || onlyRust ? undefined : await selectedFiles());
}

function noServers() {
  console.error(`Left out, for want of servers: ${[...RUST_LEFT_OUT, ...leftOut()].join(", ")}`);
  return { env: {}, stop: async () => {} };
}

await main(async () => {
  const isWhole = args.length === 0;
  await setUp({ release: isWhole });
  const servers = await neededServers(isWhole);
  const failures = [];
  try {
    const suites = onlyRust
      ? [rustTests]
      : args.length
        ? [javascriptTests]
        : [rustTests, fuzzing, javascriptTests];
    for (const suite of suites) {
      try {
        await suite(servers.env);
      } catch (error) {
        failures.push(error);
        if (error.exitCode === 130) break; // Ctrl-C ends the run, a failed suite does not.
      }
    }
  } finally {
    await servers.stop();
  }
  failTogether(failures);
});
