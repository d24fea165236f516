// Made by `npm run packages` from package.json.

export const NAME = "syncguard";
export const VERSION = "0.1.0";
export const PREFIX = "@syncguard/native-";

export const PLATFORMS = [
  "linux-x64-gnu",
  "linux-arm64-gnu",
  "linux-x64-musl",
  "linux-arm64-musl",
  "darwin-x64",
  "darwin-arm64",
  "win32-x64-msvc",
  "win32-arm64-msvc",
];
