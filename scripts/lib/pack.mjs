// The tarballs of a release for the platform we are on, without publishing
// anything: the package itself and the platform package with the addon.
import { cpSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { npm, root } from "./run.mjs";

/** Packs both into the folder and returns their paths. */
export async function pack(folder) {
  const addon = readdirSync(join(root, "js", "native")).find((name) => name.endsWith(".node"));
  const platform = addon.split(".")[1];
  const staged = join(folder, platform);
  mkdirSync(staged, { recursive: true });
  cpSync(join(root, "npm", platform), staged, { recursive: true });
  cpSync(join(root, "js", "native", addon), join(staged, addon));
  const quiet = { stdio: "ignore" };
  await npm(["pack", "--pack-destination", folder], quiet);
  await npm(["pack", "--pack-destination", folder], { ...quiet, cwd: staged });
  const tarballs = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  return tarballs.map((name) => join(folder, name));
}
