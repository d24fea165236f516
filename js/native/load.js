// Finds and loads the native part. Packages of platforms are optional dependencies, so that each
// machine gets its own; a bundler may have moved us away from them.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { LockError } from "../base/errors.js";
import { requirePackage } from "./packages.js";
import { NAME, PLATFORMS, PREFIX, VERSION } from "./platforms.js";

/** @typedef {typeof import("./binding.js")} Binding */

// In a bundle of ES modules nothing tells: then it is most likely the program itself.
const here = import.meta.dirname ?? dirname(resolve(process.argv[1] ?? "program"));

/** @returns {Binding} */
export function load() {
  const chosen = process.env.SYNCGUARD_ADDON;
  return checked(chosen ? loadFile(chosen) : loadPackage());
}

/** @param {string} chosen */
function loadFile(chosen) {
  const file = resolve(chosen);
  const { binding, causes } = attempt([() => requireFrom(here, file)]);
  if (binding !== undefined) return binding;
  throw new LockError(
    "Internal",
    `SYNCGUARD_ADDON names a file that cannot be loaded as SyncGuard's native part: ${file}`,
    { cause: causes[0] },
  );
}

function loadPackage() {
  const platforms = thisPlatform();
  /** @type {unknown[][]} */
  const failed = [];
  for (const platform of platforms) {
    const { binding, causes } = attempt([
      () => beside(platform),
      () => requirePackage(platform),
      ...[here, process.cwd()].flatMap((folder) => [
        () => requireFrom(folder, PREFIX + platform),
        // With pnpm only our own package, wherever it is, can see those of the platforms.
        () => requireFrom(packageFrom(folder), PREFIX + platform),
      ]),
    ]);
    if (binding !== undefined) return binding;
    failed.push(causes);
  }
  const one = platforms.length > 1 && hasMusl() ? 1 : 0;
  throw missing(platforms[one], failed[one]);
}

/** What this may be: which libc a Linux has is known only to who tries, or looks for long. */
function thisPlatform() {
  const { platform, arch } = process;
  const name = `${platform}-${arch}`;
  if (platform === "linux") return [`${name}-gnu`, `${name}-musl`];
  return [platform === "win32" ? `${name}-msvc` : name];
}

/** @param {Array<() => Binding | undefined>} ways */
function attempt(ways) {
  /** @type {unknown[]} */
  const causes = [];
  for (const way of ways) {
    try {
      const binding = way();
      if (binding !== undefined) return { binding, causes };
    } catch (cause) {
      causes.push(cause);
    }
  }
  return { causes };
}

/**
 * Put next to us, to the bundle or to the executable that we are in, or where a build of the
 * sources leaves it.
 * @param {string} platform
 */
function beside(platform) {
  const places = [here, join(here, "..", "js", "native"), dirname(process.execPath)];
  const files = places.map((folder) => join(folder, `syncguard.${platform}.node`));
  const file = files.find((one) => existsSync(one));
  return file && requireFrom(here, file);
}

/** @param {string} folder */
function packageFrom(folder) {
  return dirname(createRequire(join(folder, "index.js")).resolve(`${NAME}/package.json`));
}

/**
 * Not the require of a bundler, which would try to pack what it sees.
 * @param {string} folder
 * @param {string} what
 * @returns {Binding}
 */
function requireFrom(folder, what) {
  return createRequire(join(folder, "index.js"))(what);
}

/** @param {Binding} binding */
function checked(binding) {
  const version = binding.version?.() ?? "unknown";
  if (version === VERSION) return binding;
  throw new LockError(
    "Internal",
    `SyncGuard ${VERSION} found a native part of another version (${version}): install it again, so that both are of one release`,
  );
}

/**
 * @param {string} platform
 * @param {unknown[]} causes
 */
function missing(platform, causes) {
  const broken = causes.find((cause) => !isNotFound(cause));
  const [what, todo] = !PLATFORMS.includes(platform)
    ? [`there is none for ${platform}`, "Build it from source and name the file in SYNCGUARD_ADDON"]
    : broken !== undefined
      ? [`${PREFIX}${platform} is there but could not be loaded, see the cause`, "Install again"]
      : [
          `the package ${PREFIX}${platform} is not installed`,
          "Install with optional dependencies, on the kind of machine that it runs on. For a bundle that runs without node_modules see docs/bundlers.md of the package",
        ];
  return new LockError("Internal", `SyncGuard's native part is missing: ${what}. ${todo}`, {
    cause: broken ?? causes[0],
  });
}

/** @param {any} cause */
function isNotFound(cause) {
  return cause?.code === "MODULE_NOT_FOUND" || cause?.code === "ERR_MODULE_NOT_FOUND";
}

/** Takes some milliseconds. */
function hasMusl() {
  const report = /** @type {any} */ (process.report?.getReport());
  return report?.header !== undefined && report.header.glibcVersionRuntime === undefined;
}
