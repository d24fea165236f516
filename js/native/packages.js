// The variant for bundlers. It names no package, because most bundlers cannot pack an addon. All other
// programs get a list that the build generates, which names the package of every platform in full.

/**
 * @param {string} platform
 * @returns {any}
 */
export function requirePackage(platform) {
  return undefined;
}
