/// <reference lib="esnext.disposable" />
// syncguard/common: lock() and all helpers, also those for writing a backend.

export * from "./backend.js";
export * from "./constants.js";
export * from "./custom.js";
export * from "./errors.js";
export * from "./handles.js";
export * from "./lock.js";
export * from "./lookup.js";
export * from "./results.js";
export * from "./telemetry.js";
export * from "./values.js";
