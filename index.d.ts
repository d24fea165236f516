/// <reference lib="esnext.disposable" />
// syncguard: everything of syncguard/common, and backends by URL.

export * from "./types/common.js";
export { createBackend, createLock } from "./types/open.js";
