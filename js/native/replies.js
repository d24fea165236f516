// Readers of the native side's replies, which are flat strings: the first character says what follows.

import { FENCE_THRESHOLDS } from "../base/constants.js";
import { replyError } from "../base/errors.js";
import { logFenceWarning } from "../base/fence.js";
import { failure } from "./results.js";

/** @import { ExtendResult, LockErrorContext, ReleaseResult } from "../../index.js" */

// The first characters of replies.
export const ACQUIRED = 0x41; // A lockId(22) fence(15) expiresAtMs , … (see `readGrant`)
export const SHARED = 0x53; // S, like A, with the slot and a comma after the expiry
export const SEVERAL = 0x4d; // M [json]
export const LOCKED = 0x4c; // L
export const YES = 0x31; // 1 …
export const NO = 0x30; // 0
const EXPIRED = 0x32; // 2
// I lockId(22) fence(15) expiresAtMs , acquiredAtMs , slot / holders , label \n key
export const INFO = 0x49;
export const ERROR = 0x45; // E {json}
export const BEAT = 0x42; // B, or B E {json}
export const UNSURE = "!";

const LOCK_ID_END = 23;
const FENCE_END = 38;

/**
 * Returns whether the reply is a grant.
 * @param {string} reply
 */
export function isGrant(reply) {
  const tag = reply.charCodeAt(0);
  return tag === ACQUIRED || tag === SHARED;
}

/**
 * @typedef {object} Grant
 * @property {string} lockId
 * @property {string} fence
 * @property {number} expiresAtMs
 * @property {number | undefined} slot undefined if the lock is exclusive
 * @property {string} rest
 */

/**
 * Reads a grant, `A…` or `S…`. The rest of a single acquire's grant is the time until which it is valid. The
 * rest of a hold's grant is its number, the attempts made and the milliseconds waited.
 * @param {string} reply
 * @param {string} key
 */
export function readGrant(reply, key) {
  const comma = reply.indexOf(",", FENCE_END);
  const fence = reply.slice(LOCK_ID_END, FENCE_END);
  if (fence > FENCE_THRESHOLDS.WARN) logFenceWarning(fence, key);
  /** @type {Grant} */
  const grant = {
    lockId: reply.slice(1, LOCK_ID_END),
    fence,
    expiresAtMs: Number(reply.slice(FENCE_END, comma)),
    slot: undefined,
    rest: reply.slice(comma + 1),
  };
  if (reply.charCodeAt(0) === SHARED) {
    const end = grant.rest.indexOf(",");
    grant.slot = Number(grant.rest.slice(0, end));
    grant.rest = grant.rest.slice(end + 1);
  }
  return grant;
}

/**
 * Reads the number under which the engine knows a hold.
 * @param {string} rest of its grant
 */
export function readNumber(rest) {
  // Not `parseInt`, because calling it leaves the compiled code.
  return Number(rest.slice(0, rest.indexOf(",")));
}

/**
 * Reads how many attempts the wait for a hold made, and how long it took.
 * @param {string} reply a grant
 */
export function readProgress(reply) {
  if (reply.charCodeAt(0) === SEVERAL) {
    const grants = readGrants(reply);
    const most = (/** @type {"attempts" | "waitMs"} */ name) =>
      Math.max(...grants.map((grant) => grant[name]));
    return { attempts: most("attempts"), waitMs: most("waitMs") };
  }
  const waited = reply.lastIndexOf(",");
  const attempts = reply.lastIndexOf(",", waited - 1);
  return {
    attempts: Number(reply.slice(attempts + 1, waited)),
    waitMs: Number(reply.slice(waited + 1)),
  };
}

/**
 * Reads the grant of several keys, `M[…]`, in the order of the keys.
 * @param {string} reply
 * @returns {(Grant & { key: string, number: number, attempts: number, waitMs: number })[]}
 */
export function readGrants(reply) {
  const grants = JSON.parse(reply.slice(1));
  for (const { fence, key } of grants) {
    if (fence > FENCE_THRESHOLDS.WARN) logFenceWarning(fence, key);
  }
  return grants;
}

/**
 * Reads what a lookup found, `I…`.
 * @param {string} reply
 * @returns {import("../../index.js").RawLockInfo}
 */
export function readInfo(reply) {
  const comma = reply.indexOf(",", FENCE_END);
  const secondComma = reply.indexOf(",", comma + 1);
  const thirdComma = reply.indexOf(",", secondComma + 1);
  const end = reply.indexOf("\n", thirdComma);
  const share = reply.slice(secondComma + 1, thirdComma);
  const holderLabel = reply.slice(thirdComma + 1, end);
  return {
    lockId: reply.slice(1, LOCK_ID_END),
    fence: reply.slice(LOCK_ID_END, FENCE_END),
    expiresAtMs: Number(reply.slice(FENCE_END, comma)),
    acquiredAtMs: Number(reply.slice(comma + 1, secondComma)),
    key: reply.slice(end + 1),
    ...(share !== "" && readShare(share)),
    ...(holderLabel !== "" && { holderLabel }),
  };
}

/** @param {string} share */
function readShare(share) {
  const [slot, holders] = share.split("/").map(Number);
  return { mode: /** @type {const} */ ("shared"), slot, holders };
}

/**
 * @param {string} reply
 * @param {LockErrorContext} context
 * @returns {ReleaseResult}
 */
export function readReleased(reply, context) {
  return reply.charCodeAt(0) === YES ? { ok: true } : readMissed(reply, context);
}

/**
 * @param {string} reply
 * @param {LockErrorContext} context
 * @param {(validUntil: number) => void} [onValid]
 * @returns {ExtendResult}
 */
export function readExtended(reply, context, onValid) {
  if (reply.charCodeAt(0) !== YES) return readMissed(reply, context);
  const comma = reply.indexOf(",");
  onValid?.(Number(reply.slice(comma + 1)));
  return { ok: true, expiresAtMs: Number(reply.slice(1, comma)) };
}

/**
 * @param {string} reply
 * @param {LockErrorContext} context
 */
function readMissed(reply, context) {
  switch (reply.charCodeAt(0)) {
    case NO:
      return failure("not-found");
    case EXPIRED:
      return failure("expired");
    default:
      throw replyError(reply, context);
  }
}
