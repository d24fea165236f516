// What every command needs first: the dependencies and the addon, each only
// when something changed since the last time.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Failure, npm, requireCargo, root, tool } from "./run.mjs";

const addonStamp = join(root, "target", "addon.stamp");

/** Dependencies and addon; what is missing on this machine is said before any work. */
export async function setUp() {
  requireNode();
  if (!addonIsCurrent()) requireCargo();
  await ensureDependencies();
  await ensureAddon();
}

/** `npm ci`, unless node_modules already belongs to the lock file. */
async function ensureDependencies() {
  const stamp = join(root, "node_modules", ".syncguard-lock");
  const wanted = digest([join(root, "package-lock.json")]);
  if (read(stamp) === wanted) return;
  await npm(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
  writeFileSync(stamp, wanted);
}

/** Builds the addon in release mode into js/native/, unless it is up to date. */
export async function ensureAddon() {
  if (addonIsCurrent()) return;
  requireCargo();
  await tool("@napi-rs/cli/dist/cli.js", [
    "build",
    "--platform",
    "--release",
    "--esm",
    ...["--output-dir", "js/native", "--js", "addon.js", "--dts", "addon.d.ts"],
  ]);
  mkdirSync(join(root, "target"), { recursive: true });
  const built = addonState();
  if (!built) throw new Failure("The build ended without an addon in js/native/.");
  writeFileSync(addonStamp, built);
}

function addonIsCurrent() {
  const state = addonState();
  return state !== undefined && read(addonStamp) === state;
}

/** The sources and the built files in one digest; undefined when not built. */
function addonState() {
  const folder = join(root, "js", "native");
  const addon = readdirSync(folder).find((name) => name.endsWith(".node"));
  if (!addon || !existsSync(join(folder, "addon.js"))) return undefined;
  const sources = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  const { size, mtimeMs } = statSync(join(folder, addon));
  const files = ["Cargo.toml", "Cargo.lock", "build.rs", "js/native/addon.js"];
  const hash = digest([...files.map((name) => join(root, name)), ...sources]);
  const { version, napi } = JSON.parse(read(join(root, "package.json")));
  return JSON.stringify({ hash, addon, size, mtimeMs, version, napi });
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
