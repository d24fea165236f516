// npm run fuzz: runs the parsers of foreign data on hostile input.
//   npm run fuzz                             all targets, a few seconds each
//   npm run fuzz -- resp --seconds 600       one target, for longer
import { parseArgs } from "node:util";
import { fuzz, fuzzTargets } from "./lib/fuzz.mjs";
import { Failure, main } from "./lib/run.mjs";

await main(async () => {
  const { values, positionals } = parseArgs({
    options: { seconds: { type: "string" } },
    allowPositionals: true,
  });
  const known = fuzzTargets();
  const unknown = positionals.find((name) => !known.includes(name));
  if (unknown)
    throw new Failure(`There is no target ${unknown}. The targets are ${known.join(", ")}.`);
  const seconds = Number(values.seconds ?? 3);
  if (!Number.isInteger(seconds) || seconds < 1)
    throw new Failure("--seconds must be a whole number of seconds.");
  await fuzz({ seconds, ...(positionals.length && { targets: positionals }) });
});
