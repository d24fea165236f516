// Requires the packages of the platforms. This variant is for bundlers. It names no package, because most
// bundlers cannot pack an addon. For all other programs the build generates a list that names the package
// of every platform in full.

/**
 * @param {string} platform
 * @returns {any}
 */
export function requirePackage(platform) {
  return undefined;
}
