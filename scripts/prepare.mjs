// npm's `prepare`: makes a dependency on the git repository work, which nobody has built. In a
// checkout one builds when something is needed, and a release is packed from what was built.
import { cpSync, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { dist } from "./lib/bundle.mjs";
import { Failure, main, root, which } from "./lib/run.mjs";
import { ensureAddon, ensureBundle } from "./lib/setup.mjs";

await main(async () => {
  // npm sets the variable while it prepares a git dependency; others unpack one without .git.
  const isDependency = "_PACOTE_NO_PREPARE_" in process.env || !existsSync(join(root, ".git"));
  if (!isDependency) return;
  if (!which("cargo")) {
    throw new Failure(
      "SyncGuard as a git dependency is built on this machine, which needs Rust (cargo): install it, or depend on a released version instead.",
    );
  }
  await ensureAddon();
  await ensureBundle();
  const built = join(root, "js", "native");
  for (const file of readdirSync(built).filter((name) => name.endsWith(".node"))) {
    cpSync(join(built, file), join(dist, file));
  }
});
