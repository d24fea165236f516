// syncguard: everything of syncguard/common, and lock() with the backends behind it.

export * from "./common.js";
export { createLock, lock } from "./lock.js";
export { createBackend } from "./open.js";
