// Linux x64, for systems older than the one it is built on.
import { output, Failure } from "../lib/run.mjs";
import { buildAddon } from "./rust.mjs";
import { need } from "./toolbox.mjs";
import { smoke } from "./trial.mjs";
import { GLIBC, zig } from "./zig.mjs";

const NAME = "linux-x64-old-glibc";
/** What Node.js itself needs. */
const LIMIT = "2.28";

export async function build() {
  return buildAddon(NAME, { target: "x86_64-unknown-linux-gnu", glibc: GLIBC, ...(await zig()) });
}

export async function attempt(addon) {
  const glibc = neededGlibc(addon);
  if (compare(glibc, LIMIT) > 0) throw new Failure(`It needs glibc ${glibc}, newer than ${LIMIT}.`);
  return `needs glibc ${glibc}; ${await smoke(NAME, { addon, node: [process.execPath] })}`;
}

/** The newest version of a symbol that the addon takes from glibc. */
export function neededGlibc(addon) {
  need("objdump");
  const versions = output("objdump", ["-T", addon]).matchAll(/\(?GLIBC_(\d[\d.]*)\)?/g);
  return [...versions]
    .map(([, version]) => version)
    .sort(compare)
    .at(-1);
}

function compare(a, b) {
  const [left, right] = [a, b].map((version) => version.split(".").map(Number));
  return left[0] - right[0] || left[1] - right[1];
}
