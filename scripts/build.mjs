// npm run build: the dependencies and the addon.
import { main } from "./lib/run.mjs";
import { ensureAddon, ensureDependencies } from "./lib/setup.mjs";

await main(async () => {
  await ensureDependencies();
  await ensureAddon();
});
