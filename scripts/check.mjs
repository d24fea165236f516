// npm run check: checks formatting, lints and types of both languages, and the dependencies.
import { checkPackages } from "./lib/audit.mjs";
import { checkCrates } from "./lib/crates.mjs";
import { cargo, main, tool } from "./lib/run.mjs";
import { setUp } from "./lib/setup.mjs";

await main(async () => {
  // The addon's build generates its types.
  await setUp();
  await tool("prettier/bin/prettier.cjs", ["--check", "."]);
  await cargo(["fmt", "--all", "--check"]);
  await tool("typescript/bin/tsc", ["-p", "."]);
  const strict = ["--", "-D", "warnings"];
  await cargo(["clippy", "--all-targets", ...strict]);
  await cargo(["clippy", "--package=syncguard-fuzz", "--package=syncguard-models", ...strict]);
  await checkCrates();
  checkPackages();
});
