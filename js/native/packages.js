// What bundlers get: nothing to pack, since most of them cannot pack an addon. All others get a list
// that is made with the bundle of the package and names every platform's package in full.

/**
 * @param {string} platform
 * @returns {any}
 */
export function requirePackage(platform) {
  return undefined;
}
