// Lets you run `npx vitest` directly: if `npm test` has not done so, it builds everything and starts the
// servers.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureAddon, ensureBundle } from "./setup.mjs";
import { startTestServers } from "./test-servers.mjs";

export default async function setup() {
  // Tests without a backend must not use the default file of the user who runs them.
  const folder = mkdtempSync(join(tmpdir(), "syncguard-default-"));
  process.env.SYNCGUARD_STATE_DIR = join(folder, "state");
  const stop = await startServers();
  return async () => {
    await stop?.();
    rmSync(folder, { recursive: true, force: true });
  };
}

async function startServers() {
  if (process.env.SYNCGUARD_TEST_SERVERS) return undefined;
  await ensureAddon({ release: false });
  await ensureBundle();
  const { env, stop } = await startTestServers();
  Object.assign(process.env, env);
  return stop;
}
