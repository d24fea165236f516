// npm run platforms [-- name…]: builds the addon for other platforms below target/platforms, and tests
// it as far as a Linux machine can.
import { statSync } from "node:fs";
import { Failure, main } from "./lib/run.mjs";
import { ensureBundle } from "./lib/setup.mjs";

const NAMES = [
  "windows-x64",
  "macos-arm64",
  "macos-x64",
  "linux-x64-old-glibc",
  "linux-arm64",
  "linux-x64-musl",
];

/** Builds and tests one platform. A failure does not stop the others. */
async function tryPlatform(name) {
  const started = performance.now();
  const seconds = () => Math.round((performance.now() - started) / 1000);
  const result = { platform: name, built: "no", tried: "no", seen: "", seconds: 0 };
  console.log(`\n== ${name}`);
  try {
    const { build, attempt } = await import(`./platforms/${name}.mjs`);
    const addon = await build();
    result.built = addon ? `${(statSync(addon).size / 2 ** 20).toFixed(1)} MiB` : "type-checked";
    if (attempt) {
      result.seen = await attempt(addon);
      result.tried = "yes";
    }
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    if (error.exitCode === 130) throw error; // Ctrl-C ends the run.
    result.failed = true;
    result.seen = error.message;
  }
  result.seconds = seconds();
  return result;
}

await main(async () => {
  if (process.platform !== "linux") throw new Failure("`npm run platforms` needs a Linux machine.");
  const names = process.argv.slice(2);
  const unknown = names.filter((name) => !NAMES.includes(name));
  if (unknown.length) {
    throw new Failure(`Unknown: ${unknown.join(", ")}. The platforms are ${NAMES.join(", ")}.`);
  }
  await ensureBundle();
  const results = [];
  for (const name of names.length ? names : NAMES) results.push(await tryPlatform(name));
  console.log("\n| platform | built | tried | seconds | seen |\n|---|---|---|---|---|");
  for (const { platform, built, tried, seconds, seen } of results) {
    console.log(
      `| ${platform} | ${built} | ${tried} | ${seconds} | ${seen.replaceAll("\n", " ")} |`,
    );
  }
  const failed = results.filter((result) => result.failed);
  if (failed.length) throw new Failure(`${failed.length} of ${results.length} platforms failed.`);
});
