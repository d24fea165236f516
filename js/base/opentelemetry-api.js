// Loads @opentelemetry/api, an optional peer dependency. The program's own copy is used, because only
// that knows the providers that the program registered.

import { createRequire } from "node:module";
import { invalidArgument } from "./errors.js";

/** @typedef {typeof import("@opentelemetry/api")} Api */

const NEEDED = "instrument() needs @opentelemetry/api 1.9 or a later 1.x";
const INSTALL = "Install it beside syncguard: npm install @opentelemetry/api@1";

/**
 * Loads the package on demand, so that importing `syncguard/opentelemetry` works without it.
 * @returns {Api}
 */
export function loadApi() {
  /** @type {Api} */
  let api;
  try {
    api = requireApi();
  } catch (cause) {
    throw invalidArgument(`${NEEDED}, which could not be loaded. ${INSTALL}`, { cause });
  }
  if (!isSupported(api)) throw invalidArgument(`${NEEDED}, but found another version. ${INSTALL}`);
  return api;
}

/** @returns {Api} */
function requireApi() {
  try {
    // The published code is CommonJS. Bundlers treat a plain call in a `try` as an optional dependency.
    return require("@opentelemetry/api");
  } catch (thrown) {
    if (!(thrown instanceof ReferenceError)) throw thrown;
  }
  // The sources are ES modules, which have no `require`.
  return createRequire(import.meta.url)("@opentelemetry/api");
}

/**
 * Detects the version by feature, because the package does not export it. `createGauge` came with 1.9.
 * @param {any} api
 */
function isSupported(api) {
  return (
    typeof api?.context?.active === "function" &&
    typeof api.trace?.getTracer === "function" &&
    typeof api.metrics?.getMeter === "function" &&
    typeof api.SpanStatusCode?.ERROR === "number" &&
    typeof api.createNoopMeter?.().createGauge === "function"
  );
}
