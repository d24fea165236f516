// syncguard: everything of syncguard/common, and the backends by URL.

export * from "./common.js";
export { createBackend, createLock } from "./targets/open.js";
