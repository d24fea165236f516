// npm start: builds everything from a fresh clone and runs the demo.
import { join } from "node:path";
import { main, root, run } from "./lib/run.mjs";
import { setUp } from "./lib/setup.mjs";

await main(async () => {
  await setUp();
  await run(process.execPath, [join(root, "demo", "index.mjs")]);
});
