// Packs the tarballs of a release without publishing them: the main package, and the packages of the
// platforms whose addon has been built.
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { distScope, packageList } from "./bundle.mjs";
import { manifest, platformPackages } from "./packages.mjs";
import { npm, root } from "./run.mjs";

/**
 * Packs the tarballs into the folder and returns `[{ name, manifest, path }]`. The main package comes
 * last, because it is published last. `addons` is the folder with the built addons.
 */
export async function pack(folder, addons = join(root, "js", "native")) {
  const packed = [];
  for (const { platform, manifest } of platformPackages()) {
    const addon = join(addons, manifest.main);
    if (!existsSync(addon)) continue;
    const staged = join(folder, platform);
    cpSync(join(root, "npm", platform), staged, { recursive: true });
    cpSync(addon, join(staged, manifest.main));
    packed.push(await packStaged(staged, manifest, folder));
  }
  const staged = join(folder, "package");
  packed.push(await packStaged(staged, stagePackage(staged), folder));
  return packed;
}

async function packStaged(staged, manifest, folder) {
  await npm(["pack", "--ignore-scripts", "--pack-destination", folder], {
    cwd: staged,
    stdio: "ignore",
  });
  const { name, version } = manifest;
  const file = `${name.replace("@", "").replace("/", "-")}-${version}.tgz`;
  return { name, manifest, path: join(folder, file) };
}

/**
 * Returns the manifest of the published package: with the platforms as optional dependencies, and
 * without scripts and development dependencies.
 */
function stagePackage(staged) {
  const { scripts, devDependencies, overrides, prettier, napi, ...rest } = manifest();
  const published = { ...rest, ...distScope("./dist") };
  published.optionalDependencies = Object.fromEntries(
    platformPackages().map(({ name }) => [name, published.version]),
  );
  mkdirSync(staged, { recursive: true });
  // The documents link to the examples and to the sources of the types.
  const folders = ["dist", "docs", "examples", "types"];
  for (const name of [...folders, "src/backend/postgres/sql/schema.sql"]) {
    cpSync(join(root, name), join(staged, name), { recursive: true });
  }
  rmSync(join(staged, "dist", "package.json"));
  writeFileSync(join(staged, "dist", "packages.js"), packageList());
  for (const name of readdirSync(root).filter((name) => /^[A-Z]+(\.md)?$/.test(name))) {
    cpSync(join(root, name), join(staged, name));
  }
  writeFileSync(join(staged, "package.json"), `${JSON.stringify(published, null, 2)}\n`);
  return published;
}
