// npm's `prepare`: builds the package if a project depends on the git repository. In a checkout the
// commands build what they need, and a release is packed from files that are already built.
import { cpSync, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { dist } from "./lib/bundle.mjs";
import { Failure, main, root, which } from "./lib/run.mjs";
import { ensureAddon, ensureBundle } from "./lib/setup.mjs";

await main(async () => {
  // npm sets the variable while it prepares a git dependency. Other package managers unpack it
  // without .git.
  const isDependency = "_PACOTE_NO_PREPARE_" in process.env || !existsSync(join(root, ".git"));
  if (!isDependency) return;
  if (!which("cargo")) {
    throw new Failure(
      "A git dependency on SyncGuard is built on your machine, but `cargo` was not found: install Rust, or depend on a released version.",
    );
  }
  await ensureAddon();
  await ensureBundle();
  const built = join(root, "js", "native");
  for (const file of readdirSync(built).filter((name) => name.endsWith(".node"))) {
    cpSync(join(built, file), join(dist, file));
  }
});
