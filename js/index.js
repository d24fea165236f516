// syncguard: everything of syncguard/common, and lock() with the backends behind it.

export * from "./common.js";
export { createLock, lock } from "./lock/default.js";
export { createBackend } from "./targets/open.js";
