// Checks the crates that are linked into the addon against the rules in deny.toml. Uses cargo-deny if
// it is installed. Otherwise checks what the lock file and the crates reveal, and says what it cannot.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { cargo, Failure, output, requireCargo, root, which } from "./run.mjs";

const read = (name) => readFileSync(join(root, name), "utf8");

export async function checkCrates() {
  requireCargo();
  if (which("cargo-deny")) return withCargoDeny();
  const rules = readRules(read("deny.toml"));
  const crates = linkedCrates(rules.graph.targets);
  if (crates.length === 0) throw new Failure("cargo tree names no crate.");
  const found = violations(rules, crates, read("Cargo.lock"));
  if (found.length > 0) throw new Failure(`These crates violate deny.toml:\n${found.join("\n")}`);
  console.log(
    "Crates: licences, sources and duplicate versions comply with deny.toml. Advisories were NOT looked up: that needs cargo-deny (cargo install --locked cargo-deny).",
  );
}

async function withCargoDeny() {
  await cargo(["deny", "check", "bans", "licenses", "sources"]);
  try {
    await cargo(["deny", "fetch", "db"]);
  } catch (error) {
    if (error.exitCode === 130) throw error;
    console.log(
      "Crates: advisories were NOT looked up: their database cannot be fetched from here.",
    );
    return;
  }
  await cargo(["deny", "check", "advisories"]);
}

/** Parses the subset of TOML that deny.toml uses: tables, and values that are almost JSON. */
export function readRules(text) {
  const rules = {};
  let table = rules;
  const lines = /^\[(\w+)\]$|^([\w-]+) = (\[$[^]*?^\]|.+)$/gm;
  for (const [, header, name, value] of text.replace(/^ *#.*\n/gm, "").matchAll(lines)) {
    if (header) table = rules[header] = {};
    else {
      const json = value.replace(/(\w+) = "/g, '"$1": "').replace(/,(\s*[\]}])/g, "$1");
      table[name] = JSON.parse(json);
    }
  }
  return rules;
}

/** Returns `[{ name, version, license }]` of all crates that are compiled for any of the targets. */
function linkedCrates(targets) {
  const on = targets.flatMap((target) => ["--target", target]);
  const form = ["--prefix", "none", "--format", "{p}\t{l}"];
  const printed = output("cargo", ["tree", "--locked", "--edges", "normal,build", ...form, ...on]);
  const lines = printed.split("\n").map((line) => line.replace(/ \(\*\)$/, ""));
  return [...new Set(lines)]
    .map((line) => /^(\S+) v(\S+).*\t(.*)$/.exec(line))
    .filter((found) => found !== null)
    .map(([, name, version, license]) => ({ name, version, license }));
}

/** Returns one line for each violation of the rules. */
export function violations({ licenses, bans, sources }, crates, lockFile) {
  const found = [];
  for (const { name, version, license } of crates) {
    if (!isAllowed(license, licenses.allow)) {
      found.push(`${name} ${version} has the licence "${license}"`);
    }
    const ban = bans.deny.find(({ crate }) => crate === name);
    if (ban) found.push(`${name} is banned: ${ban.reason}`);
  }
  const skipped = bans.skip.map(({ crate }) => crate);
  const counted = crates.filter(({ name, version }) => !skipped.includes(`${name}@${version}`));
  for (const name of new Set(counted.map((crate) => crate.name))) {
    const versions = counted.filter((crate) => crate.name === name).map(({ version }) => version);
    if (versions.length > 1) {
      found.push(
        `${name} has several versions, and deny.toml gives no reason: ${versions.join(", ")}`,
      );
    }
  }
  const allowed = sources["allow-registry"].map((url) => `registry+${url}`);
  for (const [, source] of lockFile.matchAll(/^source = "(.*)"$/gm)) {
    if (!allowed.includes(source)) found.push(`Cargo.lock has a crate from ${source}`);
  }
  return found;
}

/** Whether these licences satisfy an SPDX expression. */
export function isAllowed(expression, licences) {
  const words = expression.replaceAll("/", " OR ").match(/[()]|[^\s()]+/g) ?? [];
  const one = () => {
    const word = words.shift();
    if (word === "(") {
      const inner = either();
      return words.shift() === ")" && inner;
    }
    if (words[0] !== "WITH") return licences.includes(word);
    return licences.includes([word, ...words.splice(0, 2)].join(" "));
  };
  const chain = (operator, next, combine) => () => {
    let met = next();
    while (words[0] === operator) {
      words.shift();
      met = combine(next(), met);
    }
    return met;
  };
  const both = chain("AND", one, (a, b) => a && b);
  const either = chain("OR", both, (a, b) => a || b);
  return either() && words.length === 0;
}
