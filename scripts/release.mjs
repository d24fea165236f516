// What the release workflow runs. Each step can be run by hand.
//   node scripts/release.mjs plan                      the platforms, as JSON
//   node scripts/release.mjs build <target>            the addon, into npm/<platform>
//   node scripts/release.mjs prepare                   makes the packages fit together
//   node scripts/release.mjs pack [<target>…]          tarballs, into target/release-packages
//   node scripts/release.mjs try <target> [--servers]  installs these and uses them
//   node scripts/release.mjs publish [--dry-run]       the same tarballs, platforms first
import { join } from "node:path";
import { Failure, main, root } from "./lib/run.mjs";
import { build } from "./release/build.mjs";
import { pack, prepare } from "./release/pack.mjs";
import { publish } from "./release/publish.mjs";
import { platformOf, platforms } from "./release/targets.mjs";
import { tryPackage } from "./release/try.mjs";

const tarballs = join(root, "target", "release-packages");
const [command, ...args] = process.argv.slice(2);
const options = args.filter((argument) => argument.startsWith("--"));
const targets = args.filter((argument) => !argument.startsWith("--"));

const commands = {
  plan: () => {
    const plan = platforms(root).map(({ target, platform, builds, tries, servers, image }) => {
      return { target, platform, builds, tries, servers: servers ?? false, image: image ?? "" };
    });
    console.log(JSON.stringify(plan));
  },
  build: () => build(root, targets[0]),
  prepare: () => prepare(root),
  pack: () =>
    pack(
      root,
      tarballs,
      targets.length ? targets.map((each) => platformOf(root, each)) : undefined,
    ),
  try: () => tryPackage(root, tarballs, targets[0], { servers: options.includes("--servers") }),
  publish: () =>
    publish(root, tarballs, {
      dryRun: options.includes("--dry-run"),
      tag: process.env.GITHUB_REF_TYPE === "tag" ? process.env.GITHUB_REF_NAME : undefined,
    }),
};

await main(async () => {
  if (!commands[command]) throw new Failure(`The steps are ${Object.keys(commands).join(", ")}.`);
  await commands[command]();
});
