// Publishing: the packages of the platforms first, so that nobody gets the
// package without them.
import { manifest } from "../lib/packages.mjs";
import { Failure, npm } from "../lib/run.mjs";
import { tarballs } from "./pack.mjs";

/**
 * @param {string} folder with the tarballs
 * @param {object} options
 * @param {boolean} options.dryRun says what it would do, and does nothing
 * @param {string} [options.tag] of git, which must name the version
 * @param {{ version: string, repository?: unknown }} [options.project]
 * @param {(args: string[]) => Promise<void>} [options.run] npm
 */
export async function publish(folder, { dryRun, tag, project = manifest(), run = npm }) {
  const { version, repository } = project;
  if (!repository && !dryRun) {
    throw new Failure(
      "package.json has no `repository`, with which npm compares where a package was built: add it, then publish.",
    );
  }
  if (tag && tag !== `v${version}`) {
    throw new Failure(`The tag ${tag} is not the version in package.json, ${version}.`);
  }
  // All of them are looked for before the first is published.
  for (const file of tarballs(folder)) {
    const args = ["publish", file, "--provenance", "--access", "public", "--ignore-scripts"];
    console.log(`npm ${args.join(" ")}`);
    if (!dryRun) await run(args);
  }
}
