// Telemetry: events about operations and holds. An observed backend behaves like one that is not.

import { FAILURE_REASON } from "../base/constants.js";
import { checkBackend, invalidArgument, unreadableOptions } from "../base/errors.js";
import { hashOf } from "../native/keys.js";
import { readString } from "../base/options.js";
import { modeOf } from "../base/sharing.js";
import { engineOf, isReplaced, nativeOf } from "../native/engine.js";
import {
  decorateAcquireResult,
  DisposalBy,
  hooksOf,
  notify,
  rememberHooks,
} from "../base/handle.js";

/** @import { LockEvent, TelemetryOptions } from "../../index.js" */
/** @typedef {import("../native/engine.js").Engine} Engine */

/** @typedef {import("../base/sharing.js").Share} Share */

/**
 * The rest of an event: the outcome (an error, or the operation's result) and measurements.
 * @typedef {object} Measured
 * @property {any} [outcome]
 * @property {string | undefined} [backend]
 * @property {string | undefined} [name]
 * @property {number} [durationMs]
 * @property {number} [attempts]
 * @property {number} [waitMs]
 * @property {number} [heldMs]
 */
/** @typedef {Measured & Share} Facts */

/**
 * @typedef {object} Observer
 * @property {(type: LockEvent["type"], key: string | undefined, lockId: string | undefined, error: any, facts: Facts) => void} emit
 */

/**
 * What is behind a backend that withTelemetry() returned.
 * @typedef {object} Decoration
 * @property {any} inner
 * @property {Observer} observer
 * @property {import("../native/engine.js").Operations} original
 */

/** @type {WeakMap<object, Decoration>} */
const decorations = new WeakMap();

/** @type {readonly Observer[]} */
const NOBODY = [];

// Keys that match this stay hidden with `includeRaw: true`. A predicate can still show them.
const SENSITIVE = /token|secret|passw|credential|api[-_]?key/i;

/**
 * Returns the engine of a backend and its observers.
 * @param {any} backend
 * @param {boolean} extends_ whether it must be able to extend
 * @returns {{ engine: Engine, observers: readonly Observer[] }}
 */
export function accessTo(backend, extends_) {
  const decoration = decorations.get(backend);
  if (decoration === undefined || isReplaced(backend, decoration.original)) {
    return { engine: engineOf(backend, extends_), observers: NOBODY };
  }
  const { engine, observers } = accessTo(decoration.inner, extends_);
  return { engine, observers: [...observers, decoration.observer] };
}

/**
 * Returns the native backend behind any number of decorations.
 * @param {any} backend
 * @returns {import("../native/bridge.js").NativeBackend | undefined}
 */
export function nativeBehind(backend) {
  const decoration = decorations.get(backend);
  return decoration === undefined ? nativeOf(backend) : nativeBehind(decoration.inner);
}

/**
 * @param {TelemetryOptions} options
 * @returns {Observer}
 */
export function observerOf(options) {
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

  return {
    emit(type, key, lockId, error, facts) {
      /** @type {LockEvent} */
      const event = { type, result: "fail" };
      judge(event, error, facts.outcome);
      if (key !== undefined) event.keyHash = hashOf(key);
      if (lockId !== undefined) event.lockIdHash = hashOf(lockId);
      const { backend, name, durationMs, attempts, waitMs, heldMs, mode, slot } = facts;
      if (backend !== undefined) event.backend = backend;
      if (name !== undefined) event.name = name;
      if (durationMs !== undefined) event.durationMs = durationMs;
      if (attempts !== undefined) event.attempts = attempts;
      if (waitMs !== undefined) event.waitMs = waitMs;
      if (heldMs !== undefined) event.heldMs = heldMs;
      if (mode !== undefined) event.mode = mode;
      if (slot !== undefined) event.slot = slot;
      if (mayShow(event, key)) {
        if (key !== undefined) event.key = key;
        if (lockId !== undefined) event.lockId = lockId;
      }
      notify(onEvent, event);
    },
  };
}

/**
 * Adds the outcome to an event.
 * @param {LockEvent} event
 * @param {any} error
 * @param {any} outcome
 */
function judge(event, error, outcome) {
  const { type } = event;
  if (error !== undefined) {
    if (typeof error?.code === "string") event.code = error.code;
    if (error?.code === "AcquisitionTimeout" && error.cause === undefined) event.reason = "locked";
  } else if (type === "heartbeat") {
    event.result = "ok";
  } else if (type === "isLocked" || type === "lookup") {
    if (outcome) event.result = "ok";
  } else if (outcome?.ok) {
    event.result = "ok";
  } else {
    // Custom backends may return the reason as a plain property.
    const reason = outcome?.[FAILURE_REASON]?.reason ?? outcome?.reason;
    if (reason !== undefined) event.reason = reason;
  }
}

/**
 * Returns the backend with an event for each operation. Capabilities, close and disposal are those of
 * the inner backend.
 * @param {any} backend
 * @param {TelemetryOptions} options
 * @returns {any}
 */
export function withTelemetry(backend, options) {
  const observer = observerOf(options);
  checkBackend(backend, ["acquire", "release"]);
  const kind = backend.capabilities?.backend;

  /**
   * @param {LockEvent["type"]} type
   * @param {string | undefined} key
   * @param {string | undefined} lockId
   * @param {() => Promise<any>} call
   * @param {Share} [share] if it is known before the call
   */
  async function observed(type, key, lockId, call, share) {
    const started = performance.now();
    const facts = (/** @type {any} */ outcome) => ({
      backend: kind,
      durationMs: performance.now() - started,
      outcome,
      ...share,
      ...(type === "acquire" && { slot: outcome?.slot }),
    });
    let outcome;
    try {
      outcome = await call();
    } catch (error) {
      observer.emit(type, key, lockId, error, facts(undefined));
      throw error;
    }
    observer.emit(type, key, lockId ?? outcome?.lockId, undefined, facts(outcome));
    return outcome;
  }

  /** @param {"acquire" | "release" | "extend" | "isLocked" | "lookup"} type */
  const operation = (type) => (/** @type {any} */ opts) => {
    const call = () => backend[type](opts);
    const share = type === "acquire" ? { mode: modeOf(opts) } : undefined;
    return observed(type, readString(opts, "key"), readString(opts, "lockId"), call, share);
  };

  /**
   * Returns a handle whose release and extend emit events too.
   * @param {any} result
   * @param {string} key
   * @param {Share["mode"]} mode
   */
  function withObservedMethods(result, key, mode) {
    const hooks = hooksOf(result) ?? hooksOf(backend) ?? {};
    // A mocked acquire may return data without methods.
    if (nativeBehind(backend) === undefined || typeof result?.isHeld !== "function") {
      const { onReleaseError, disposeTimeoutMs } = hooks;
      return decorateAcquireResult(decorated, result, key, onReleaseError, disposeTimeoutMs);
    }
    if (!result.ok) return result;
    const share = { mode, slot: result.slot };
    // Changed in place, because a copy would call its getters.
    const { lockId, release, extend } = result;
    const disposal = new DisposalBy(
      (signal) => observed("release", undefined, lockId, () => release(signal), share),
      lockId,
      key,
      hooks,
    );
    result.release = (/** @type {AbortSignal} */ signal) => disposal.release(signal);
    result.extend = (/** @type {number} */ ttlMs, /** @type {AbortSignal} */ signal) =>
      observed("extend", undefined, lockId, () => extend(ttlMs, signal), share);
    result[Symbol.asyncDispose] = () => disposal.dispose();
    return result;
  }

  const acquireObserved = operation("acquire");
  /** @type {any} */
  const decorated = {
    acquire: async (/** @type {any} */ opts) =>
      withObservedMethods(await acquireObserved(opts), readString(opts, "key") ?? "", modeOf(opts)),
    release: operation("release"),
    extend: operation("extend"),
    isLocked: operation("isLocked"),
    lookup: operation("lookup"),
    capabilities: backend.capabilities,
  };
  if (typeof backend.close === "function") {
    decorated.close = (/** @type {any} */ opts) => backend.close(opts);
  }
  if (typeof backend[Symbol.asyncDispose] === "function") {
    decorated[Symbol.asyncDispose] = () => backend[Symbol.asyncDispose]();
  }
  const { acquire, release, extend } = decorated;
  decorations.set(decorated, { inner: backend, observer, original: { acquire, release, extend } });
  rememberHooks(decorated, hooksOf(backend) ?? {});
  return decorated;
}
