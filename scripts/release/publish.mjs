// Publishes the platform packages first, so that nobody can install the main package without them.
import { manifest } from "../lib/packages.mjs";
import { Failure, npm } from "../lib/run.mjs";
import { tarballs } from "./pack.mjs";

/**
 * @param {string} folder with the tarballs
 * @param {object} options
 * @param {boolean} options.dryRun prints the commands without running them
 * @param {string} [options.tag] the git tag, which must name the version
 * @param {{ version: string, repository?: unknown }} [options.project]
 * @param {(args: string[]) => Promise<void>} [options.run] npm
 */
export async function publish(folder, { dryRun, tag, project = manifest(), run = npm }) {
  const { version, repository } = project;
  if (!repository && !dryRun) {
    throw new Failure(
      "package.json has no `repository`, and npm needs it to verify where the package was built: add it, then publish.",
    );
  }
  if (tag && tag !== `v${version}`) {
    throw new Failure(`The tag ${tag} is not the version in package.json, ${version}.`);
  }
  // Find all tarballs before publishing the first.
  for (const file of tarballs(folder)) {
    const args = ["publish", file, "--provenance", "--access", "public", "--ignore-scripts"];
    console.log(`npm ${args.join(" ")}`);
    if (!dryRun) await run(args);
  }
}
