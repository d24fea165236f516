// Opens native backends.

import { addon } from "./addon.js";
import { replyError } from "../base/errors.js";
import { takeSoon, tellTime, theBridge } from "./bridge.js";

/** @typedef {import("./bridge.js").NativeBackend} NativeBackend */
/** @typedef {import("./bridge.js").NativeObject} NativeObject */

/**
 * @param {string} kind
 * @param {object} config
 * @param {number} [target] the number under which a client of the user is asked
 * @param {string} [label] the label that is stored with its locks
 * @returns {NativeBackend}
 */
export function openNative(kind, config, target = 0, label) {
  tellTime();
  const native = opened(addon().open(theBridge(), kind, JSON.stringify(config), target, label));
  return native.needsJavascript() ? takingReplies(native) : native;
}

/**
 * Creates the engine over a custom backend, which is asked under the number `target`.
 * @param {number} target
 * @param {boolean} canWatch
 * @param {boolean} supportsSharing
 * @returns {NativeBackend}
 */
export function openCustom(target, canWatch, supportsSharing) {
  return takingReplies(opened(addon().openCustom(theBridge(), target, canWatch, supportsSharing)));
}

/**
 * @param {NativeObject | string} native or the error reply
 * @returns {NativeBackend}
 */
function opened(native) {
  if (typeof native === "string") throw replyError(native);
  return Object.assign(native, native.calls());
}

/**
 * Returns the methods of a native backend that asks JavaScript, or uses its time. Replies that a call leaves
 * are taken before its caller waits.
 * @param {NativeBackend} native
 * @returns {NativeBackend}
 */
function takingReplies(native) {
  /** @type {any} */
  const served = {};
  const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(native));
  for (const name of [...methods, ...Object.keys(native)]) {
    const method = /** @type {any} */ (native)[name];
    if (name === "constructor" || typeof method !== "function") continue;
    served[name] = (/** @type {any[]} */ ...args) => {
      tellTime();
      const reply = method.apply(native, args);
      takeSoon();
      return reply;
    };
  }
  return served;
}
