// The tarballs of a release: what is tried is what is published.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Failure, npm } from "../lib/run.mjs";
import { platforms, readProject } from "./targets.mjs";

const write = (file, value) => writeFileSync(file, `${JSON.stringify(value, undefined, 2)}\n`);

/** The addresses of the owner, which every package carries if there are any. */
const ADDRESSES = ["repository", "homepage", "bugs", "author"];

/**
 * Makes the packages fit together: the package itself depends on those of the
 * platforms, in this very version. Changes files that are not to be committed.
 */
export function prepare(project) {
  const main = readProject(project);
  const optionalDependencies = {};
  for (const { name, folder, platform } of platforms(project)) {
    const file = join(folder, "package.json");
    if (!existsSync(file)) throw new Failure(`npm/${platform}/package.json is missing.`);
    const own = JSON.parse(readFileSync(file, "utf8"));
    if (own.name !== name) throw new Failure(`npm/${platform} is called ${own.name}, not ${name}.`);
    const addresses = ADDRESSES.filter((key) => main[key]).map((key) => [key, main[key]]);
    write(file, { ...own, version: main.version, ...Object.fromEntries(addresses) });
    optionalDependencies[name] = main.version;
  }
  write(join(project, "package.json"), { ...main, optionalDependencies });
}

/** Packs the platforms, or some of them, and then the package itself: the order of publishing. */
export async function pack(project, into, wanted = platforms(project)) {
  for (const { platform, folder, addon } of wanted) {
    if (!existsSync(join(folder, addon))) throw new Failure(`npm/${platform}/${addon} is missing.`);
  }
  rmSync(into, { recursive: true, force: true });
  mkdirSync(into, { recursive: true });
  for (const cwd of [...wanted.map(({ folder }) => folder), project]) {
    const args = ["pack", "--ignore-scripts", "--pack-destination", into, "--loglevel=error"];
    await npm(args, { cwd, stdio: ["ignore", "ignore", "inherit"] });
  }
}

/** The path of the tarball of a package. */
export function tarball(folder, name, version) {
  const file = `${name.replace("@", "").replace("/", "-")}-${version}.tgz`;
  if (!existsSync(join(folder, file))) {
    throw new Failure(`${file} is missing among ${readdirSync(folder).join(", ") || "no files"}.`);
  }
  return join(folder, file);
}
