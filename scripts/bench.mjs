// npm run bench: set-up, then bench/index.mjs.
import { join } from "node:path";
import { main, root, run } from "./lib/run.mjs";
import { setUp } from "./lib/setup.mjs";

await main(async () => {
  await setUp();
  await run(process.execPath, [join(root, "bench", "index.mjs"), ...process.argv.slice(2)]);
});
