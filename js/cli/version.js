// Which version this is.

import { readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";

/** As package.json says, which lies above the file that was started. */
export function version() {
  let folder = dirname(realpathSync(process.argv[1]));
  for (;;) {
    try {
      const found = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      if (found.name === "syncguard") return String(found.version);
    } catch {
      // Not here.
    }
    if (dirname(folder) === folder) return "unknown";
    folder = dirname(folder);
  }
}
