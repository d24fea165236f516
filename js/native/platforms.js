// Made by `npm run packages` from package.json.

import { createRequire } from "node:module";

// Not the require of a bundler, which would try to pack all of them.
const require = createRequire(import.meta.url);

export const VERSION = "0.1.0";
export const PREFIX = "@syncguard/native-";

/**
 * Names in full, for tools that look for what a program needs.
 * @type {Record<string, () => any>}
 */
export const PACKAGES = {
  "linux-x64-gnu": () => require("@syncguard/native-linux-x64-gnu"),
  "linux-arm64-gnu": () => require("@syncguard/native-linux-arm64-gnu"),
  "linux-x64-musl": () => require("@syncguard/native-linux-x64-musl"),
  "linux-arm64-musl": () => require("@syncguard/native-linux-arm64-musl"),
  "darwin-x64": () => require("@syncguard/native-darwin-x64"),
  "darwin-arm64": () => require("@syncguard/native-darwin-arm64"),
  "win32-x64-msvc": () => require("@syncguard/native-win32-x64-msvc"),
  "win32-arm64-msvc": () => require("@syncguard/native-win32-arm64-msvc"),
};
