// The tarballs of a release, without publishing anything: the package itself, and the packages of
// the platforms whose addon is there.
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { distScope } from "./bundle.mjs";
import { manifest, platformPackages } from "./packages.mjs";
import { npm, root } from "./run.mjs";

/**
 * Packs them into the folder; `[{ name, manifest, path }]`, the package itself last, as it is
 * published last. `addons` is where the files lie that builds left.
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
 * The package as it is published: with the platforms as optional dependencies, without our tools
 * and sources, so that one package.json is enough.
 */
function stagePackage(staged) {
  const { scripts, devDependencies, overrides, prettier, napi, ...rest } = manifest();
  const published = { ...rest, ...distScope("./dist") };
  published.optionalDependencies = Object.fromEntries(
    platformPackages().map(({ name }) => [name, published.version]),
  );
  mkdirSync(staged, { recursive: true });
  for (const name of ["dist", "docs", "src/backend/postgres/sql/schema.sql"]) {
    cpSync(join(root, name), join(staged, name), { recursive: true });
  }
  rmSync(join(staged, "dist", "package.json"));
  for (const name of readdirSync(root).filter((name) => /^[A-Z]+(\.md)?$/.test(name))) {
    cpSync(join(root, name), join(staged, name));
  }
  writeFileSync(join(staged, "package.json"), `${JSON.stringify(published, null, 2)}\n`);
  return published;
}
