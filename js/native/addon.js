// The native addon, loaded on first use, so that whatever does not need it works without it.

import { load } from "./load.js";

/** @type {import("./load.js").Binding | undefined} */
let binding;

export function addon() {
  return (binding ??= load());
}
