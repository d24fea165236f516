// Reads the target of an integration: a backend that the program has created, or the URL of a new one.

import { isBackend } from "../base/recognize.js";
import { createBackend } from "./open.js";

/** @import { CloseOptions, LockBackend } from "../../index.js" */

/**
 * Returns the backend, and a `close()` that closes it only if it was opened here.
 * @param {ArrayLike<any>} args the target, if there is one. Without it, the default backend is opened
 * @returns {{ backend: LockBackend<any>, close: (options?: CloseOptions) => Promise<void> }}
 */
export function backendOf(args) {
  if (isBackend(args[0])) return { backend: args[0], close: async () => {} };
  const backend = args.length === 0 ? createBackend() : createBackend(args[0]);
  return { backend, close: (options) => backend.close(options) };
}
