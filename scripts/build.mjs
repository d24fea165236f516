// npm run build: the dependencies and the addon.
import { main } from "./lib/run.mjs";
import { setUp } from "./lib/setup.mjs";

await main(async () => {
  await setUp();
});
