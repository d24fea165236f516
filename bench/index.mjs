// npm run bench [-- name…] [--quick]: runs bench/<name>.mjs, or all benchmarks without a name.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { Failure, main, run } from "../scripts/lib/run.mjs";
import { setUp } from "../scripts/lib/setup.mjs";

const folder = import.meta.dirname;
const known = readdirSync(folder)
  .filter((file) => file.endsWith(".mjs") && file !== "index.mjs")
  .map((file) => file.slice(0, -".mjs".length));

await main(async () => {
  const args = process.argv.slice(2);
  const flags = args.filter((arg) => arg.startsWith("--"));
  const names = args.filter((arg) => !arg.startsWith("--"));
  for (const name of names) {
    if (!known.includes(name)) {
      throw new Failure(`There is no benchmark "${name}": choose from ${known.join(", ")}.`);
    }
  }
  await setUp();
  // Use a process for each, so that memory left by one does not slow the next.
  for (const name of names.length ? names : known) {
    await run(process.execPath, [join(folder, `${name}.mjs`), ...flags]);
  }
});
