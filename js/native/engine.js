// Finds the engine of a backend. Every engine is the same Rust code, over a store or over a custom backend.
// A native backend counts as a custom one if a spy or a mock has replaced some of its operations.

import { checkBackend, backendError, LockError } from "../base/errors.js";
import { FAILURE_REASON } from "../base/constants.js";
import { openCustom } from "./open.js";
import { register, unregisterOnGc } from "./questions.js";

/** @typedef {import("./bridge.js").NativeBackend} NativeBackend */

/**
 * @typedef {object} Engine
 * @property {NativeBackend} native
 * @property {string | undefined} name the kind of backend
 * @property {boolean} isNative whether the backend is one of this package, even if some of its
 *   operations were replaced
 * @property {Callers | undefined} callers of a backend that is asked in JavaScript
 * @property {boolean} needsJavascript whether its locks can only be kept alive by JavaScript
 */

/** @typedef {Record<"acquire" | "release" | "extend", Function>} Operations */
/** @typedef {{ lockId: string, fence: string | undefined, expiresAtMs: number, slot: number | undefined }} CustomGrant */

/** @type {WeakMap<object, { engine: Engine, original: Operations }>} */
const natives = new WeakMap();

/** @type {WeakMap<object, Engine>} */
const customs = new WeakMap();

/**
 * @param {any} backend
 * @param {NativeBackend} native
 * @param {Operations} original
 */
export function registerNative(backend, native, original) {
  const { backend: name } = backend.capabilities;
  const needsJavascript = native.needsJavascript();
  const engine = { native, name, isNative: true, callers: undefined, needsJavascript };
  natives.set(backend, { engine, original });
}

/**
 * Returns the native side of a backend of this package, even if some of its operations were replaced.
 * @param {any} backend
 * @returns {NativeBackend | undefined}
 */
export function nativeOf(backend) {
  return natives.get(backend)?.engine.native;
}

/**
 * @param {any} backend any LockBackend
 * @param {boolean} extends_ whether it must be able to extend
 * @returns {Engine}
 */
export function engineOf(backend, extends_) {
  const known = natives.get(backend);
  if (known !== undefined && !isReplaced(backend, known.original)) return known.engine;
  return customEngine(backend, extends_, known !== undefined);
}

/**
 * Returns whether operations of the backend were replaced since it was created.
 * @param {any} backend
 * @param {Operations} original
 */
export function isReplaced(backend, { acquire, release, extend }) {
  return backend.acquire !== acquire || backend.release !== release || backend.extend !== extend;
}

/**
 * @param {any} backend
 * @param {boolean} extends_
 * @param {boolean} isNative
 */
function customEngine(backend, extends_, isNative) {
  checkBackend(backend, ["acquire", "release", ...(extends_ ? ["extend"] : [])]);
  let engine = customs.get(backend);
  if (engine === undefined) {
    const callers = new Callers(backend);
    const canWatch = typeof backend.watch === "function";
    const supportsSharing = backend.capabilities?.supportsSharing === true;
    const native = openCustom(callers.target, canWatch, supportsSharing);
    const name = backend.capabilities?.backend;
    engine = { native, name, isNative, callers, needsJavascript: true };
    customs.set(backend, engine);
  }
  return engine;
}

/** A custom backend, the callers on whose behalf it is asked, and the locks that it has granted. */
export class Callers {
  /** @type {WeakRef<any>} */
  #backend;
  /** @type {Map<number, AbortSignal>} */
  #signals = new Map();
  #last = 0;
  /** The locks that it has granted, by the id under which the native side asked for each.
   * @type {Map<string, CustomGrant>} */
  #grants = new Map();
  /** @type {Map<number, AbortController>} */
  #watches = new Map();

  /** @param {any} backend */
  constructor(backend) {
    this.#backend = new WeakRef(backend);
    this.target = register({
      answer: (question) => this.#answer(question),
      describe: (thrown, { op }) => {
        const { code, message } = backendError(op, thrown, {});
        return { code, message };
      },
    });
    unregisterOnGc(backend, this.target);
  }

  get backend() {
    return this.#backend.deref();
  }

  /**
   * @param {AbortSignal | undefined} signal that acquire() is to be called with
   * @returns {number}
   */
  enter(signal) {
    if (signal === undefined) return 0;
    this.#last += 1;
    this.#signals.set(this.#last, signal);
    return this.#last;
  }

  /** @param {number} caller */
  leave(caller) {
    this.#signals.delete(caller);
  }

  /**
   * @param {string} id
   * @returns {CustomGrant | undefined}
   */
  grant(id) {
    return this.#grants.get(id);
  }

  /** @param {string} id */
  forget(id) {
    this.#grants.delete(id);
  }

  /** @param {any} question */
  async #answer({ op, id, key, ttlMs, caller, number, limit }) {
    const { backend } = this;
    if (backend === undefined) {
      throw new LockError(
        "Internal",
        "The backend was garbage collected while it was in use. Keep a reference to it",
      );
    }
    const lockId = this.#grants.get(id)?.lockId ?? id;
    switch (op) {
      case "acquire": {
        const signal = this.#signals.get(caller);
        const result = await backend.acquire({ key, ttlMs, signal, ...sharing(limit) });
        if (!result?.ok) return { ok: false };
        const { lockId: granted, fence, expiresAtMs, slot } = result;
        this.#grants.set(id, { lockId: granted, fence, expiresAtMs, slot });
        return { ok: true, expiresAtMs: milliseconds(expiresAtMs), slot: slot ?? null };
      }
      case "release": {
        const result = await backend.release({ lockId });
        this.forget(id);
        return mutation(result);
      }
      case "extend":
        return mutation(await backend.extend({ lockId, ttlMs }));
      case "watch": {
        const controller = new AbortController();
        this.#watches.set(number, controller);
        try {
          return void (await backend.watch({ key, signal: controller.signal }));
        } finally {
          this.#watches.delete(number);
        }
      }
      case "unwatch":
        this.#watches.get(number)?.abort();
    }
  }
}

/**
 * Returns the options with which an acquire asks for a share of the key. Empty for an exclusive lock.
 * @param {number | null | undefined} limit null for any number of holders
 */
function sharing(limit) {
  if (limit === undefined) return {};
  const mode = /** @type {const} */ ("shared");
  return limit === null ? { mode } : { mode, concurrency: limit };
}

/** @param {any} result */
function mutation(result) {
  if (result?.ok) return { ok: true, expiresAtMs: milliseconds(result.expiresAtMs) };
  // Custom backends may return the reason as a plain property.
  const reason = result?.[FAILURE_REASON]?.reason ?? result?.reason;
  return { ok: false, expired: reason === "expired" };
}

/** @param {unknown} value */
function milliseconds(value) {
  return Number.isFinite(value) && Number(value) > 0 ? value : 0;
}
