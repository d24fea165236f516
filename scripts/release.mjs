// The steps of the release workflow. You can run each step by hand.
//   node scripts/release.mjs plan                      prints the platforms and their machines as JSON
//   node scripts/release.mjs build <target>            builds the addon into target/release-addons
//   node scripts/release.mjs pack [<target>…]          packs the tarballs into target/release-packages
//   node scripts/release.mjs try <target> [--servers]  installs them and uses the package
//   node scripts/release.mjs publish [--dry-run]       publishes the tarballs, the platforms first
import { join } from "node:path";
import { Failure, main, root } from "./lib/run.mjs";
import { ensureBundle } from "./lib/setup.mjs";
import { build } from "./release/build.mjs";
import { packRelease } from "./release/pack.mjs";
import { publish } from "./release/publish.mjs";
import { plan } from "./release/targets.mjs";
import { tryPackage } from "./release/try.mjs";

const addons = join(root, "target", "release-addons");
const packages = join(root, "target", "release-packages");
const [step, ...args] = process.argv.slice(2);
const has = (option) => args.includes(option);
const targets = args.filter((argument) => !argument.startsWith("--"));

const steps = {
  plan: () => console.log(JSON.stringify(plan())),
  build: () => build(targets[0], addons),
  async pack() {
    await ensureBundle();
    await packRelease(addons, packages, targets.length ? targets : undefined);
  },
  try: () => tryPackage(targets[0], packages, { servers: has("--servers") }),
  publish() {
    const { GITHUB_REF_TYPE: type, GITHUB_REF_NAME: name } = process.env;
    const tag = type === "tag" ? name : undefined;
    return publish(packages, { dryRun: has("--dry-run"), tag });
  },
};

await main(async () => {
  if (!steps[step]) throw new Failure(`The steps are ${Object.keys(steps).join(", ")}.`);
  await steps[step]();
});
