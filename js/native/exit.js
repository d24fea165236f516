// Releases held locks when the process ends. The native side notices the end by itself, unless the process
// ends without calling `exit()` of the C library.

import { addon } from "./addon.js";

const ENDS_UNNOTICED = process.platform === "win32" || process.versions.bun !== undefined;

let isListening = false;

/** @param {import("./bridge.js").NativeBackend} native */
export function releaseOnExit(native) {
  native.releaseOnExit();
  if (!ENDS_UNNOTICED || isListening) return;
  isListening = true;
  process.once("exit", () => addon().releaseHeld());
}
