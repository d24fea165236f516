// Finds and loads the native part. Packages of platforms are optional dependencies, so that each
// machine gets its own; a bundler may have moved us away from them.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { LockError } from "../base/errors.js";
import { PACKAGES, PREFIX, VERSION } from "./platforms.js";

/** @typedef {typeof import("./binding.js")} Binding */

const here = fileURLToPath(new URL(".", import.meta.url));

/** @returns {Binding} */
export function load() {
  const chosen = process.env.SYNCGUARD_ADDON;
  if (chosen) {
    return checked(
      attempt([() => requireFrom(here, chosen)], (causes) => unusable(chosen, causes)),
    );
  }
  const platforms = thisPlatform();
  const ways = platforms.flatMap((platform) => [
    () => beside(platform),
    () => PACKAGES[platform]?.(),
    () => fromProgram(platform),
  ]);
  return checked(attempt(ways, (causes) => missing(platforms, causes)));
}

/** What this may be: which libc a Linux has is known only to who tries, or looks for long. */
function thisPlatform() {
  const { platform, arch } = process;
  const name = `${platform}-${arch}`;
  if (platform === "linux") return [`${name}-gnu`, `${name}-musl`];
  return [platform === "win32" ? `${name}-msvc` : name];
}

/**
 * @param {Array<() => Binding | undefined>} ways
 * @param {(causes: unknown[]) => Error} failure
 */
function attempt(ways, failure) {
  const causes = [];
  for (const way of ways) {
    try {
      const binding = way();
      if (binding !== undefined) return binding;
    } catch (cause) {
      causes.push(cause);
    }
  }
  throw failure(causes);
}

/**
 * Put next to us or to the bundle that we are in, or where a build of the sources leaves it.
 * @param {string} platform
 */
function beside(platform) {
  const places = [here, join(here, "..", "js", "native")];
  const files = places.map((folder) => join(folder, `syncguard.${platform}.node`));
  const file = files.find((one) => existsSync(one));
  return file && requireFrom(here, file);
}

/**
 * For a bundle that lies elsewhere: where the program was started.
 * @param {string} platform
 */
function fromProgram(platform) {
  return PACKAGES[platform] && requireFrom(process.cwd(), PREFIX + platform);
}

/**
 * @param {string} folder
 * @param {string} what
 * @returns {Binding}
 */
function requireFrom(folder, what) {
  return createRequire(join(folder, "index.js"))(what);
}

/** @param {Binding} binding */
function checked(binding) {
  if (binding.version?.() === VERSION) return binding;
  throw new LockError(
    "Internal",
    `SyncGuard ${VERSION} found a native part of another version (${binding.version?.()}): install it again, so that both are of one release`,
  );
}

/**
 * @param {string} file
 * @param {unknown[]} causes
 */
function unusable(file, [cause]) {
  return new LockError(
    "Internal",
    `SYNCGUARD_ADDON names a file that cannot be loaded as SyncGuard's native part: ${file}`,
    { cause },
  );
}

/**
 * @param {string[]} platforms
 * @param {unknown[]} causes
 */
function missing(platforms, causes) {
  const platform = platforms.length > 1 ? platforms[hasMusl() ? 1 : 0] : platforms[0];
  const broken = causes.find((cause) => !isNotFound(cause));
  const [what, todo] = !(platform in PACKAGES)
    ? [`there is none for ${platform}`, "Build it from source and name the file in SYNCGUARD_ADDON"]
    : broken !== undefined
      ? [`${PREFIX}${platform} is there but could not be loaded, see the cause`, "Install again"]
      : [
          `the package ${PREFIX}${platform} is not installed`,
          "Install with optional dependencies, on the kind of machine that it runs on. A bundler must leave syncguard outside of its bundle: see docs/bundlers.md of the package",
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
