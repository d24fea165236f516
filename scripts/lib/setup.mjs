// What every command needs first: the dependencies and the addon, each only
// when something changed since the last time.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cargo, Failure, npm, root, tool, which } from "./run.mjs";

/** `npm ci` in the folder, unless node_modules already belongs to its lock file. */
export async function ensureDependencies(folder = root) {
  const stamp = join(folder, "node_modules", ".syncguard-lock");
  const wanted = digest([join(folder, "package-lock.json"), join(folder, "package.json")]);
  if (read(stamp) === wanted) return;
  await npm(["ci", "--no-audit", "--no-fund", "--loglevel=error"], { cwd: folder });
  writeFileSync(stamp, wanted);
}

/** Builds the addon in release mode into js/, unless it is up to date. */
export async function ensureAddon() {
  const stamp = join(root, "target", "addon.stamp");
  const wanted = addonState();
  if (wanted && read(stamp) === wanted) return;
  if (!which("cargo")) await cargo([]); // Fails with the sentence that says what to install.
  await tool("@napi-rs/cli/dist/cli.js", [
    "build",
    "--platform",
    "--release",
    "--esm",
    ...["--output-dir", "js", "--js", "native.js", "--dts", "native.d.ts"],
  ]);
  mkdirSync(join(root, "target"), { recursive: true });
  const built = addonState();
  if (!built) throw new Failure("The build ended without an addon in js/.");
  writeFileSync(stamp, built);
}

/** The sources and the built files in one digest; undefined when not built. */
function addonState() {
  if (!existsSync(join(root, "js"))) return undefined;
  const addon = readdirSync(join(root, "js")).find((name) => name.endsWith(".node"));
  if (!addon || !existsSync(join(root, "js", "native.js"))) return undefined;
  const sources = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  const { size, mtimeMs } = statSync(join(root, "js", addon));
  const files = ["Cargo.toml", "Cargo.lock", "build.rs", "package.json", "js/native.js"];
  const hash = digest([...files.map((name) => join(root, name)), ...sources]);
  return `${hash} ${addon} ${size} ${mtimeMs}`;
}

function digest(files) {
  const hash = createHash("sha256");
  for (const file of files) hash.update(`${file.slice(root.length)}\0`).update(readFileSync(file));
  return hash.digest("hex");
}

function read(file) {
  return existsSync(file) ? readFileSync(file, "utf8") : undefined;
}
