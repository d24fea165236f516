// npm run bench: set-up, the libraries to compare with, then bench/index.mjs.
import { join } from "node:path";
import { main, root, run } from "./lib/run.mjs";
import { ensureDependencies, setUp } from "./lib/setup.mjs";

await main(async () => {
  await setUp();
  await ensureDependencies(join(root, "bench"));
  await run(process.execPath, [join(root, "bench", "index.mjs"), ...process.argv.slice(2)]);
});
