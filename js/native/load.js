// Finds and loads the native addon. It is loaded from the folder of this code, or from the package of the
// platform as Node.js resolves it from there. It is never loaded from the working directory, where anybody
// may have put a file. To load it from any other place, name the file in SYNCGUARD_ADDON.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { LockError } from "../base/errors.js";
import { libcOfProcess } from "./libc.js";
import { executableFolder, ownFolder } from "./location.js";
import { requirePackage } from "./packages.js";
import { NAME, PLATFORMS, PREFIX, VERSION } from "./platforms.js";

/** @typedef {typeof import("./binding.js")} Binding */

/** @returns {Binding} */
export function load() {
  const chosen = process.env.SYNCGUARD_ADDON;
  return checked(chosen ? loadFile(resolve(chosen)) : loadPackage());
}

/** @param {string} file */
function loadFile(file) {
  try {
    return requireFrom(dirname(file), file);
  } catch (cause) {
    throw new LockError(
      "Internal",
      `The file that SYNCGUARD_ADDON names cannot be loaded as SyncGuard's native addon: ${file}. Unset the variable, or name an addon of this version`,
      { cause },
    );
  }
}

function loadPackage() {
  const platforms = thisPlatform();
  /** @type {unknown[][]} */
  const failed = [];
  for (const platform of platforms) {
    const { binding, causes } = attempt(waysTo(platform));
    if (binding !== undefined) return binding;
    failed.push(causes);
  }
  throw missing(platforms[0], failed[0]);
}

/**
 * Returns the names of this platform's packages. On Linux the package for the other C library comes second,
 * in case the library was not recognised.
 */
function thisPlatform() {
  const { platform, arch } = process;
  const name = `${platform}-${arch}`;
  if (platform === "linux") {
    const names = [`${name}-gnu`, `${name}-musl`];
    return libcOfProcess() === "musl" ? names.reverse() : names;
  }
  return [platform === "win32" ? `${name}-msvc` : name];
}

/**
 * @typedef {() => Binding | "" | undefined} Way
 * @param {string} platform
 * @returns {Way[]}
 */
function waysTo(platform) {
  const file = `syncguard.${platform}.node`;
  const folder = ownFolder();
  return [
    () => folder && requireFile(join(folder, file)),
    () => requirePackage(platform),
    () => folder && requireFrom(folder, PREFIX + platform),
    () => folder && requireFrom(packageFrom(folder), PREFIX + platform),
    () => besideExecutable(file),
  ];
}

/** @param {Way[]} ways */
function attempt(ways) {
  /** @type {unknown[]} */
  const causes = [];
  for (const way of ways) {
    try {
      const binding = way();
      if (binding) return { binding, causes };
    } catch (cause) {
      causes.push(cause);
    }
  }
  return { causes };
}

/** @param {string} file */
function requireFile(file) {
  return existsSync(file) ? requireFrom(dirname(file), file) : undefined;
}

/** @param {string} file */
function besideExecutable(file) {
  const folder = executableFolder();
  return folder && requireFile(join(folder, file));
}

/**
 * Returns the folder of this package, as a bundle finds it. With pnpm, only this package can resolve those of
 * the platforms.
 * @param {string} folder
 */
function packageFrom(folder) {
  return dirname(createRequire(join(folder, "index.js")).resolve(`${NAME}/package.json`));
}

/**
 * Uses Node's own require, because that of a bundler would try to pack the addon.
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
    `SyncGuard ${VERSION} found a native addon of another version (${version}). Install SyncGuard again, so that both have the same version`,
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
      ? [
          `${PREFIX}${platform} is installed but could not be loaded, see the cause`,
          "Install again",
        ]
      : [
          `the package ${PREFIX}${platform} is not installed`,
          "Install with optional dependencies, on the same kind of machine as the program runs on. A bundle that runs without node_modules needs the file beside it, or its path in SYNCGUARD_ADDON: see docs/bundlers.md of the package",
        ];
  return new LockError("Internal", `SyncGuard's native addon is missing: ${what}. ${todo}`, {
    cause: broken ?? causes[0],
  });
}

/** @param {any} cause */
function isNotFound(cause) {
  return cause?.code === "MODULE_NOT_FOUND" || cause?.code === "ERR_MODULE_NOT_FOUND";
}
