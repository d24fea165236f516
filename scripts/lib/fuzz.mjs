// Runs the fuzz targets in fuzz/ with the stable compiler, without cargo-fuzz. Each target replays its
// saved inputs in fuzz/corpus/ and then generates new ones for a while.
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, relative } from "node:path";
import { cargo, cargoTarget, Failure, failTogether, root, run } from "./run.mjs";
import { requirePackages } from "./system-packages.mjs";

const folder = join(root, "fuzz");
/** The limits of one input, in seconds and in megabytes. */
const LIMITS = ["-timeout=10", "-rss_limit_mb=1024"];

export function fuzzTargets() {
  const files = readdirSync(join(folder, "fuzz_targets"));
  return files.map((file) => file.replace(/\.rs$/, "")).sort();
}

/**
 * @param {{ targets?: string[], seconds?: number }} [options] `seconds` is the time for each
 *   target; 0 only replays the saved inputs
 */
export async function fuzz({ targets = fuzzTargets(), seconds = 3 } = {}) {
  if (process.platform === "win32") {
    console.log("Fuzzing was left out: it needs Linux or macOS.");
    return;
  }
  requirePackages(["c++"], {
    packages: { "c++": { debian: "g++", brew: "llvm" } },
    user: "The fuzz targets",
  });
  await cargo(["build", "--package", "syncguard-fuzz"], {
    env: { RUSTC_WORKSPACE_WRAPPER: join(folder, "instrument.sh") },
  });
  const waiting = [...targets];
  const failures = [];
  const work = async () => {
    for (let target = waiting.shift(); target; target = waiting.shift()) {
      await fuzzOne(target, seconds).catch((error) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  failTogether(failures);
}

async function fuzzOne(target, seconds) {
  const saved = join(folder, "corpus", target);
  const found = join(root, "target", "fuzz", target);
  const artifacts = join(folder, "artifacts", target);
  for (const path of [found, artifacts]) mkdirSync(path, { recursive: true });
  const log = `${found}.log`;
  const file = openSync(log, "w");
  const program = join(cargoTarget, "debug", target);
  const until = seconds ? `-max_total_time=${seconds}` : "-runs=0";
  const limits = [...LIMITS, until, `-artifact_prefix=${artifacts}/`];
  try {
    await run(program, [found, saved, ...limits, "-print_final_stats=1"], {
      stdio: ["ignore", file, file],
    });
  } catch (error) {
    if (error.exitCode === 130) throw error;
    const said = readFileSync(log, "utf8").split("\n").slice(-40).join("\n");
    const replay = `${relative(root, program)} <the file named above>`;
    throw new Failure(`Fuzzing ${target} found a fault:\n${said}\nTo replay it: ${replay}`);
  } finally {
    closeSync(file);
  }
  const runs = Number(/number_of_executed_units: (\d+)/.exec(readFileSync(log, "utf8"))?.[1]);
  const inputs = `fuzz ${target}: ${readdirSync(saved).length} saved inputs`;
  console.log(seconds ? `${inputs}, ${runs} runs in ${seconds} s` : inputs);
}
