// Running lock() calls hear of extensions made elsewhere in the program: fn may itself call
// backend.extend({ lockId: ctx.lockId, … }), and its lock is not lost then.

/**
 * @typedef {object} Watcher
 * @property {(expiresAtMs: number, validUntil: number) => void} extended
 */

/** @type {Map<string, Watcher>} */
const watchers = new Map();

/**
 * @param {string} lockId
 * @param {Watcher} watcher
 */
export function watchExtensions(lockId, watcher) {
  watchers.set(lockId, watcher);
}

/** @param {string} lockId */
export function unwatchExtensions(lockId) {
  watchers.delete(lockId);
}

/**
 * @param {string} lockId
 * @param {number} expiresAtMs
 * @param {number} validUntil on performance.now()'s clock: until then the lock is surely held
 */
export function noteExtension(lockId, expiresAtMs, validUntil) {
  watchers.get(lockId)?.extended(expiresAtMs, validUntil);
}
