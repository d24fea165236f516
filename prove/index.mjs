// npm run prove [-- backend…] [--minutes N] [--seed S] [--report]
// Runs each backend, or all of them, under faults for so many minutes, and says what the promises were
// worth. `--report` keeps the results and writes docs/proof.md of all that were kept.
import { randomInt } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Failure, main, output, root } from "../scripts/lib/run.mjs";
import { setUp } from "../scripts/lib/setup.mjs";
import { prove } from "./prove.mjs";
import { inShort, report } from "./report.mjs";
import { STORES } from "./stores.mjs";

const results = join(import.meta.dirname, "results");
const backends = Object.keys(STORES);

function readArguments() {
  const options = {
    minutes: { type: "string", default: "1" },
    seed: { type: "string", default: String(randomInt(1e9)) },
    report: { type: "boolean", default: false },
  };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  for (const name of positionals) {
    if (!backends.includes(name)) {
      throw new Failure(`There is no backend "${name}": choose from ${backends.join(", ")}.`);
    }
  }
  const minutes = Number(values.minutes);
  if (!(minutes > 0)) throw new Failure("--minutes is a number above 0.");
  const names = positionals.length ? positionals : backends.filter((name) => name !== "control");
  return { ...values, minutes, names };
}

/** Where and of what it was. */
function circumstances() {
  return {
    commit: output("git", ["rev-parse", "--short=10", "HEAD"]).trim(),
    date: new Date().toISOString().slice(0, 10),
    machine: `Node.js ${process.version}, ${process.platform} ${process.arch}, ${cpus().length} × ${cpus()[0]?.model.trim() ?? "CPU"}`,
  };
}

function writeReport() {
  const kept = readdirSync(results).filter((file) => file.endsWith(".json"));
  const runs = kept.map((file) => JSON.parse(readFileSync(join(results, file), "utf8")));
  runs.sort((a, b) => backends.indexOf(a.backend) - backends.indexOf(b.backend));
  const { markdown, charts } = report(runs);
  writeFileSync(join(root, "docs", "proof.md"), markdown);
  writeFileSync(join(root, "docs", "proof.svg"), charts);
}

await main(async () => {
  const { names, minutes, seed, report: isReported } = readArguments();
  await setUp();
  const broken = [];
  for (const backend of names) {
    console.log(`${backend}: ${minutes} min, --seed ${seed}`);
    const folder = join(root, "target", "prove", `${backend}-${seed}`);
    const summary = await prove({ backend, seed, seconds: minutes * 60, folder });
    console.log(inShort(summary));
    if (!summary.isKept) broken.push(`${backend}: what happened is recorded in ${folder}`);
    if (!isReported) continue;
    mkdirSync(results, { recursive: true });
    const text = JSON.stringify({ ...summary, ...circumstances() }, null, 2);
    writeFileSync(join(results, `${backend}.json`), `${text}\n`);
  }
  if (isReported) writeReport();
  if (broken.length) throw new Failure(broken.join("\n"));
});
