// Asks npm for advisories on the packages that are installed together with this one.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Failure, npmOutput, root } from "./run.mjs";

export function checkPackages() {
  const lockFile = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  const report = npmOutput(["audit", "--omit=dev", "--package-lock-only", "--json"]);
  console.log(verdict(installed(lockFile), report));
}

/** Returns the packages of a lock file without those for development only. */
export function installed({ packages }) {
  return Object.keys(packages).filter((path) => path !== "" && !packages[path].dev);
}

/** Summarises npm's report. Throws a failure if it has advisories. */
export function verdict(paths, report) {
  const { vulnerabilities = {}, metadata } = parse(report);
  const found = Object.entries(vulnerabilities);
  if (found.length > 0) {
    const names = found.map(([name, { severity }]) => `${name} (${severity})`);
    throw new Failure(`npm audit has advisories on ${names.join(", ")}`);
  }
  const asked = `npm: ${paths.length} packages are installed with ours`;
  if (paths.length === 0) return `${asked}, so there can be no advisory on one.`;
  if (metadata !== undefined) return `${asked}, without a known advisory.`;
  return `${asked}. Advisories were NOT looked up: the registry does not tell them here.`;
}

function parse(report) {
  try {
    return JSON.parse(report);
  } catch {
    return {};
  }
}
