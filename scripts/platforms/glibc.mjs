// Checks which glibc an addon for Linux needs.
import { Failure, output } from "../lib/run.mjs";
import { need } from "./toolbox.mjs";

/** The version that Node.js itself needs. */
const LIMIT = "2.28";

/** Returns the newest glibc version that the addon needs. Throws if it is newer than Node.js's own. */
export function neededGlibc(addon) {
  need("objdump");
  const symbols = output("objdump", ["-T", addon]).matchAll(/GLIBC_(\d[\d.]*)/g);
  const newest = [...symbols]
    .map(([, version]) => version)
    .sort(compare)
    .at(-1);
  if (newest && compare(newest, LIMIT) <= 0) return newest;
  throw new Failure(`It needs glibc ${newest ?? "in an unknown version"}, not ${LIMIT} or older.`);
}

function compare(a, b) {
  const [left, right] = [a, b].map((version) => version.split(".").map(Number));
  return left[0] - right[0] || left[1] - right[1];
}
