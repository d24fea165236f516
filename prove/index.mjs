// npm run prove [-- backend…] [--minutes N] [--seed S] [--report]
//   Runs each named backend, or all of them, under faults for N minutes, and checks the guarantees.
//   `--report` saves the results and writes docs/proof.md from all saved results.
// npm run prove -- --long [backend…] [--operations N] [--seed S] [--report]
//   Runs very many operations in one process, and checks it for leaks.
import { randomInt } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Failure, main, output, root } from "../scripts/lib/run.mjs";
import { setUp } from "../scripts/lib/setup.mjs";
import { growthOf } from "./check/growth.mjs";
import { endure } from "./endurance.mjs";
import { prove } from "./prove.mjs";
import { inShort, report } from "./report.mjs";
import { STORES } from "./stores.mjs";

const results = join(import.meta.dirname, "results");
const backends = Object.keys(STORES);
const LONG = ["redis", "postgres", "firestore", "sqlite"];

function readArguments() {
  const options = {
    minutes: { type: "string", default: "1" },
    seed: { type: "string", default: String(randomInt(1e9)) },
    report: { type: "boolean", default: false },
    long: { type: "boolean", default: false },
    operations: { type: "string" },
  };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  for (const name of positionals) {
    if (!backends.includes(name)) {
      throw new Failure(`There is no backend "${name}": choose from ${backends.join(", ")}.`);
    }
  }
  const minutes = Number(values.minutes);
  if (!(minutes > 0)) throw new Failure("--minutes is a number above 0.");
  const all = values.long ? LONG : backends.filter((name) => !name.startsWith("control"));
  return { ...values, minutes, names: positionals.length ? positionals : all };
}

/** Returns the commit, date and machine of a run. */
function circumstances() {
  return {
    commit: output("git", ["rev-parse", "--short=10", "HEAD"]).trim(),
    date: new Date().toISOString().slice(0, 10),
    machine: `Node.js ${process.version}, ${process.platform} ${process.arch}, ${cpus().length} × ${cpus()[0]?.model.trim() ?? "CPU"}`,
  };
}

function keep(name, result) {
  mkdirSync(results, { recursive: true });
  const text = JSON.stringify({ ...result, ...circumstances() }, null, 2);
  writeFileSync(join(results, `${name}.json`), `${text}\n`);
}

function writeReport() {
  const read = (file) => JSON.parse(readFileSync(join(results, file), "utf8"));
  const kept = readdirSync(results).filter((file) => file.endsWith(".json"));
  const [long, runs] = [true, false].map((isLong) =>
    kept
      .filter((file) => file.startsWith("long-") === isLong)
      .map(read)
      .sort((a, b) => backends.indexOf(a.backend) - backends.indexOf(b.backend)),
  );
  const { markdown, charts } = report(runs, long);
  writeFileSync(join(root, "docs", "proof.md"), markdown);
  writeFileSync(join(root, "docs", "proof.svg"), charts);
}

async function underFaults(backend, { minutes, seed, report }) {
  console.log(`${backend}: ${minutes} min, --seed ${seed}`);
  const folder = join(root, "target", "prove", `${backend}-${seed}`);
  const summary = await prove({ backend, seed, seconds: minutes * 60, folder });
  console.log(inShort(summary));
  if (report) keep(backend, summary);
  return summary.isKept ? [] : [`${backend}: what happened is recorded in ${folder}`];
}

async function forLong(backend, { operations, seed, report }) {
  const count = Number(operations ?? (backend === "redis" ? 1e7 : 1e6));
  console.log(`${backend}: ${count.toLocaleString("en-US")} operations, --seed ${seed}`);
  const growth = growthOf(await endure({ backend, operations: count, seed }));
  console.log(growth);
  if (report) keep(`long-${backend}`, growth);
  return growth.isFlat ? [] : [`${backend}: grew in ${growth.grew.join(", ")}`];
}

await main(async () => {
  const options = readArguments();
  await setUp();
  const failures = [];
  for (const backend of options.names) {
    failures.push(...(await (options.long ? forLong : underFaults)(backend, options)));
  }
  if (options.report) writeReport();
  if (failures.length) throw new Failure(failures.join("\n"));
});
