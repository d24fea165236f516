// Lets `npx vitest` work on its own: without `npm test` around it, it builds
// and starts the servers itself.
import { ensureAddon, ensureBundle } from "./setup.mjs";
import { startTestServers } from "./test-servers.mjs";

export default async function setup() {
  if (process.env.SYNCGUARD_TEST_SERVERS) return undefined;
  await ensureAddon({ release: false });
  await ensureBundle();
  const { env, stop } = await startTestServers();
  Object.assign(process.env, env);
  return stop;
}
