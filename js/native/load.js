// Finds and loads the native part. It is loaded from beside this code, or from the package of the
// platform as Node.js finds it from there: never from the folder in which the program was started,
// which may be anybody's. Everything else has to be named by SYNCGUARD_ADDON.

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
      `SYNCGUARD_ADDON names a file that cannot be loaded as SyncGuard's native part: ${file}`,
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
 * What the packages of this platform are called. On Linux the one for the other C library comes
 * second, in case ours was not recognised.
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
 * The folder of our own package, as a bundle finds it. With pnpm, only our own package can see those
 * of the platforms.
 * @param {string} folder
 */
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
          "Install with optional dependencies, on the kind of machine that it runs on. A bundle that runs without node_modules needs the file beside it, or its path in SYNCGUARD_ADDON: see docs/bundlers.md of the package",
        ];
  return new LockError("Internal", `SyncGuard's native part is missing: ${what}. ${todo}`, {
    cause: broken ?? causes[0],
  });
}

/** @param {any} cause */
function isNotFound(cause) {
  return cause?.code === "MODULE_NOT_FOUND" || cause?.code === "ERR_MODULE_NOT_FOUND";
}
