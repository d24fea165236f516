// One event for each operation of a backend.

import { FAILURE_REASON } from "../base/constants.js";
import { checkBackend, invalidArgument, unreadableOptions } from "../base/errors.js";
import { decorateAcquireResult, hooksOf, notify } from "./handle.js";
import { hashKey } from "../base/keys.js";

/** @import { LockEvent, TelemetryOptions } from "../../index.js" */

// Keys that look like this stay hidden under `includeRaw: true`; a predicate may still show them.
const SENSITIVE = /token|secret|passw|credential|api[-_]?key/i;

/**
 * @param {unknown} opts
 * @param {"key" | "lockId"} name
 * @returns {string | undefined}
 */
function readString(opts, name) {
  try {
    const value = /** @type {any} */ (opts)[name];
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The backend, with an event for each operation. It keeps the capabilities; close and disposal
 * are passed on.
 * @param {any} backend
 * @param {TelemetryOptions} options
 * @returns {any}
 */
export function withTelemetry(backend, options) {
  /** @type {TelemetryOptions["onEvent"]} */
  let onEvent;
  /** @type {TelemetryOptions["includeRaw"]} */
  let includeRaw;
  try {
    ({ onEvent, includeRaw = false } = options);
  } catch (cause) {
    throw unreadableOptions("withTelemetry(backend, { onEvent })", options, cause);
  }
  if (typeof onEvent !== "function") throw invalidArgument("onEvent must be a function");
  if (typeof includeRaw !== "boolean" && typeof includeRaw !== "function") {
    throw invalidArgument("includeRaw must be true, false or a function");
  }
  checkBackend(backend, ["acquire", "release"]);

  /**
   * @param {LockEvent} event
   * @param {string | undefined} key
   * @returns {boolean}
   */
  function mayShow(event, key) {
    if (typeof includeRaw === "boolean") return includeRaw && !SENSITIVE.test(key ?? "");
    try {
      return includeRaw?.(event) === true;
    } catch {
      return false;
    }
  }

  /**
   * @param {LockEvent["type"]} type
   * @param {string | undefined} key
   * @param {string | undefined} lockId
   * @param {"ok" | "fail"} result
   * @param {LockEvent["reason"]} [reason]
   */
  function emit(type, key, lockId, result, reason) {
    /** @type {LockEvent} */
    const event = { type, result };
    if (key !== undefined) event.keyHash = hashKey(key);
    if (lockId !== undefined) event.lockIdHash = hashKey(lockId);
    if (reason !== undefined) event.reason = reason;
    if (mayShow(event, key)) {
      if (key !== undefined) event.key = key;
      if (lockId !== undefined) event.lockId = lockId;
    }
    notify(onEvent, event);
  }

  /**
   * @param {"release" | "extend" | "isLocked" | "lookup"} type
   * @param {(result: any) => ["ok"] | ["fail", LockEvent["reason"]?]} judge
   */
  function observed(type, judge) {
    return async (/** @type {any} */ opts) => {
      const key = readString(opts, "key");
      const lockId = readString(opts, "lockId");
      let result;
      try {
        result = await backend[type](opts);
      } catch (error) {
        emit(type, key, lockId, "fail");
        throw error;
      }
      const [outcome, reason] = judge(result);
      emit(type, key, lockId, outcome, reason);
      return result;
    };
  }

  /** @type {any} */
  const decorated = {
    async acquire(/** @type {any} */ opts) {
      const key = readString(opts, "key");
      let result;
      try {
        result = await backend.acquire(opts);
      } catch (error) {
        emit("acquire", key, undefined, "fail");
        throw error;
      }
      if (result?.ok) emit("acquire", key, result.lockId, "ok");
      else emit("acquire", key, undefined, "fail", result?.reason);
      // A handle that goes through this backend, so that its release and extend are seen too.
      const hooks = hooksOf(result, backend);
      return decorateAcquireResult(
        decorated,
        result,
        key ?? "",
        hooks?.onReleaseError,
        hooks?.disposeTimeoutMs,
      );
    },
    release: observed("release", judgeMutation),
    extend: observed("extend", judgeMutation),
    isLocked: observed("isLocked", () => ["ok"]),
    lookup: observed("lookup", (info) => (info ? ["ok"] : ["fail", "not-found"])),
    capabilities: backend.capabilities,
  };
  if (typeof backend.close === "function") decorated.close = () => backend.close();
  if (typeof backend[Symbol.asyncDispose] === "function") {
    decorated[Symbol.asyncDispose] = () => backend[Symbol.asyncDispose]();
  }
  return decorated;
}

/**
 * @param {any} result
 * @returns {["ok"] | ["fail", LockEvent["reason"]?]}
 */
function judgeMutation(result) {
  if (result?.ok) return ["ok"];
  // Custom backends may say the reason in the open.
  return ["fail", result?.[FAILURE_REASON]?.reason ?? result?.reason];
}
