// Says why a lock is busy. For people: what is said may be outdated when they read it.

import { showDuration } from "./duration.js";

/** @import { FencingCapabilities, LockInfo } from "../../index.js" */
/** @typedef {import("./backend.js").Opened} Opened */
/** @typedef {LockInfo<FencingCapabilities> | null} Info */

/**
 * Describes who keeps the caller from the lock.
 * @param {Opened} opened
 * @param {string[]} keys
 * @param {number} limit of holders, with the caller
 */
export async function describeBusy({ backend, library }, keys, limit) {
  if (keys.length === 1) {
    const info = await backend.lookup({ key: keys[0] }).catch(() => null);
    return `the lock is busy: ${holderOf(info, limit)} it${leaseOf(info)}`;
  }
  for (const key of keys) {
    const info = await backend.lookup({ key }).catch(() => null);
    if (info === null || (info.mode === "shared" && (info.holders ?? 1) < limit)) continue;
    const which = `the lock on ${library.hashKey(key)}`;
    return `one of the locks is busy: ${holderOf(info, limit)} ${which}${leaseOf(info)}`;
  }
  return "one of the locks was busy";
}

/**
 * @param {Info} info
 * @param {number} limit
 */
function holderOf(info, limit) {
  const { holders = 1, mode, holderLabel = "another holder" } = info ?? {};
  // A waiting writer keeps new readers out.
  if (mode === "shared" && holders < limit) return "somebody waits to be the only holder of";
  return holders === 1 ? `${holderLabel} has` : `${holders} holders share`;
}

/** @param {Info} info */
function leaseOf(info) {
  const leftMs = info === null ? 0 : info.expiresAtMs - Date.now();
  if (leftMs <= 0) return "";
  const { holders = 1 } = info ?? {};
  const whose = holders === 1 ? "its lease ends" : "the last lease ends";
  return `; ${whose} in ${showDuration(leftMs)} unless it is extended`;
}
