// Publishing: the packages of the platforms first, so that nobody can install
// the package without them.
import { Failure, npm } from "../lib/run.mjs";
import { tarball } from "./pack.mjs";
import { platforms, readProject } from "./targets.mjs";

/**
 * @param {string} project
 * @param {string} folder with the tarballs
 * @param {object} options
 * @param {boolean} options.dryRun
 * @param {string} [options.tag] of git, which must name the version
 * @param {(args: string[]) => Promise<void>} [options.run] npm
 */
export async function publish(project, folder, { dryRun, tag, run = npm }) {
  const { name, version, repository } = readProject(project);
  if (!repository && !dryRun) {
    throw new Failure(
      "package.json has no `repository`, which npm compares with where a package with provenance was built: add it, then publish.",
    );
  }
  if (tag && tag !== `v${version}`) {
    throw new Failure(`The tag ${tag} is not the version in package.json, ${version}.`);
  }
  const names = [...platforms(project).map((platform) => platform.name), name];
  const tarballs = names.map((each) => tarball(folder, each, version));
  for (const file of tarballs) {
    const args = ["publish", file, "--provenance", "--access", "public", "--ignore-scripts"];
    if (dryRun) console.log(`npm ${args.join(" ")}`);
    else await run(args);
  }
}
