// syncguard: everything of syncguard/common, and backends by URL.

export * from "./common.js";
export { createLock } from "./lock/default.js";
export { createBackend } from "./targets/open.js";
