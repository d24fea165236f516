// Packs the tarballs of a release. The same tarballs are tested and published.
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pack } from "../lib/pack.mjs";
import { manifest, platformPackages } from "../lib/packages.mjs";
import { Failure } from "../lib/run.mjs";

/** Packs the addons of all platforms, or of some targets, and the package itself. */
export async function packRelease(addons, folder, targets) {
  const wanted = platformPackages().filter(({ target }) => !targets || targets.includes(target));
  const files = wanted.map((each) => each.manifest.main);
  const missing = files.filter((file) => !existsSync(join(addons, file)));
  if (missing.length) throw new Failure(`There is no ${missing.join(", ")} in ${addons}.`);
  rmSync(folder, { recursive: true, force: true });
  await pack(folder, addons);
}

/** Returns all packages of the release with their tarballs, in the order of publication. */
export function tarballs(folder) {
  const { name, version } = manifest();
  const names = [...platformPackages().map((each) => each.name), name];
  return names.map((name) => tarball(folder, name, version));
}

export function tarball(folder, name, version = manifest().version) {
  const file = `${name.replace("@", "").replace("/", "-")}-${version}.tgz`;
  if (existsSync(join(folder, file))) return join(folder, file);
  const there = existsSync(folder) ? readdirSync(folder).join(", ") : "";
  throw new Failure(`${file} is missing in ${folder}, which contains ${there || "nothing"}.`);
}
