// npm run packages: writes the files that depend on the name, version and targets in package.json.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { derivedFiles } from "./lib/packages.mjs";
import { main, root } from "./lib/run.mjs";

await main(async () => {
  for (const [path, text] of Object.entries(derivedFiles())) {
    const file = join(root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
});
