// syncguard: everything of syncguard/common, and backends by URL.

export * from "./common.js";
export { createBackend, createLock } from "./targets/open.js";
