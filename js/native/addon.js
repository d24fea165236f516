// The native part, loaded when it is first needed: what needs none works where there is none.

import { load } from "./load.js";

/** @type {import("./load.js").Binding | undefined} */
let binding;

export function addon() {
  return (binding ??= load());
}
