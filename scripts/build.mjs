// npm run build: installs the dependencies and builds the addon.
import { main } from "./lib/run.mjs";
import { setUp } from "./lib/setup.mjs";

await main(async () => {
  await setUp();
});
