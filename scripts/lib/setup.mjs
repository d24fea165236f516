// Prepares what every command needs: the dependencies, the addon and the JavaScript bundle. Each is
// updated only if something has changed since the last time.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildQuickAddon, buildReleaseAddon } from "./addon.mjs";
import { bundle, dist } from "./bundle.mjs";
import { Failure, npm, requireCargo, root } from "./run.mjs";

const addonStamp = join(root, "target", "addon.stamp");
const bundleStamp = join(root, "target", "bundle.stamp");

/**
 * Prepares everything, or everything but the addon or the bundle. Reports missing programs before any
 * work starts. `tests` means that the Rust tests follow, and should be compiled together with the
 * addon.
 */
export async function setUp({ release = true, addon = true, bundle = true, tests = false } = {}) {
  requireNode();
  if (addon && !addonIsCurrent(release)) requireCargo();
  await ensureDependencies();
  if (addon) await ensureAddon({ release, tests });
  if (bundle) await ensureBundle();
}

/** Runs `npm ci` unless node_modules already matches the lock file. */
async function ensureDependencies() {
  const stamp = join(root, "node_modules", ".syncguard-lock");
  const wanted = digest([join(root, "package-lock.json")]);
  if (read(stamp) === wanted) return;
  await npm(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
  writeFileSync(stamp, wanted);
}

/**
 * Builds the addon into js/native/ unless it is up to date. If speed does not matter, use an
 * unoptimised addon, which takes a fraction of the time to build.
 */
export async function ensureAddon({ release = true, tests = false } = {}) {
  if (addonIsCurrent(release)) return;
  requireCargo();
  await (release ? buildReleaseAddon() : buildQuickAddon({ tests }));
  mkdirSync(join(root, "target"), { recursive: true });
  if (!addonState(release)) throw new Failure("The build ended without an addon in js/native/.");
  writeFileSync(addonStamp, addonState(release));
}

/** Bundles js/ into dist/ unless that is up to date. */
export async function ensureBundle() {
  const sources = ["js", "types", "scripts/lib"].flatMap((name) => filesBelow(join(root, name)));
  const wanted = digest([join(root, "package.json"), join(root, "index.d.ts"), ...sources]);
  if (existsSync(dist) && read(bundleStamp) === wanted) return;
  await bundle();
  mkdirSync(join(root, "target"), { recursive: true });
  writeFileSync(bundleStamp, wanted);
}

function addonIsCurrent(release) {
  const stamp = read(addonStamp);
  const good = release ? [true] : [true, false];
  return stamp !== undefined && good.some((optimised) => addonState(optimised) === stamp);
}

/** Returns a digest of the sources and the built files, or undefined if the addon is not built. */
function addonState(release) {
  const folder = join(root, "js", "native");
  const addon = readdirSync(folder).find((name) => name.endsWith(".node"));
  if (!addon || !existsSync(join(folder, "binding.d.ts"))) return undefined;
  const sources = filesBelow(join(root, "src"));
  const { size, mtimeMs } = statSync(join(folder, addon));
  const settings = ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", "build.rs"];
  const files = [...settings, "js/native/binding.d.ts"];
  const hash = digest([...files.map((name) => join(root, name)), ...sources]);
  const { version, napi } = JSON.parse(read(join(root, "package.json")));
  return JSON.stringify({ hash, addon, size, mtimeMs, version, napi, release });
}

function filesBelow(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

function digest(files) {
  const hash = createHash("sha256");
  for (const file of files) hash.update(`${file.slice(root.length)}\0`).update(readFileSync(file));
  return hash.digest("hex");
}

function read(file) {
  return existsSync(file) ? readFileSync(file, "utf8") : undefined;
}

function requireNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  throw new Failure(`SyncGuard needs Node.js 20.19 or newer; this is ${process.version}.`);
}
