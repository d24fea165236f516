// Saves results.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chart } from "./chart.mjs";

const results = join(import.meta.dirname, "..", "results");

/** Prints the text, and saves it with a chart of its figures. */
export function keep(name, text, figures) {
  mkdirSync(results, { recursive: true });
  writeFileSync(join(results, `${name}.md`), text);
  writeFileSync(join(results, `${name}.svg`), chart(figures));
  console.log(text);
}
