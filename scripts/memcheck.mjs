// npm run memcheck: runs the tests of unsafe code with an addon built with AddressSanitizer, which
// reports memory that is used after it was freed or beyond its end. You can name other test files.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { cargo, cargoTarget, Failure, main, output, root, tool } from "./lib/run.mjs";
import { setUp } from "./lib/setup.mjs";
import { startTestServers } from "./lib/test-servers.mjs";

/** Tests of sockets on the event loop, and of threads and processes that end while they are busy. */
const TESTS = [
  "__test__/redis/event-loop.test.js",
  "__test__/postgres/busy-thread.test.js",
  "__test__/e2e/threads.test.js",
  "__test__/e2e/lifetime.test.js",
];

const folder = join(root, "target", "memcheck");
const addon = join(folder, "syncguard.node");
const reports = join(folder, "report");

/** Finds the sanitizer's library, which must be loaded before anything else. */
function runtime() {
  const path = output("cc", ["-print-file-name=libasan.so"]).trim();
  if (path.includes("/")) return path;
  throw new Failure("AddressSanitizer needs the libasan of gcc (apt-get install gcc).");
}

async function build() {
  await cargo(["build", "--lib"], {
    env: { RUSTC_WORKSPACE_WRAPPER: join(root, "scripts", "lib", "sanitize.sh") },
  });
  copyFileSync(join(cargoTarget, "debug", "libsyncguard.so"), addon);
}

await main(async () => {
  if (process.platform !== "linux") throw new Failure("memcheck needs Linux.");
  const preload = runtime();
  await setUp({ addon: false });
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await build();
  const given = process.argv.slice(2);
  const tests = given.length ? given : TESTS;
  const servers = await startTestServers(tests.map((file) => join(root, file)));
  let failure;
  try {
    await tool("vitest/vitest.mjs", ["run", ...tests], {
      env: {
        ...servers.env,
        SYNCGUARD_TEST_SERVERS: "started",
        SYNCGUARD_ADDON: addon,
        LD_PRELOAD: preload,
        // Node.js itself frees little when it exits, so leak detection would report all of that.
        ASAN_OPTIONS: `log_path=${reports}:detect_leaks=0:abort_on_error=1`,
      },
    });
  } catch (error) {
    failure = error;
  } finally {
    await servers.stop();
  }
  const reports = readdirSync(folder).filter((name) => name.startsWith("report"));
  if (reports.length) {
    const texts = reports.map((name) => readFileSync(join(folder, name), "utf8"));
    throw new Failure(`AddressSanitizer found:\n${texts.join("\n")}`);
  }
  if (failure) throw failure;
  console.log("AddressSanitizer found nothing.");
});
