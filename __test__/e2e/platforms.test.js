// The parts of platform support that can be checked on any platform: the packages, and the workflows
// that build, test and publish them.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { manifest, platformPackages } from "../../scripts/lib/packages.mjs";
import { neededGlibc } from "../../scripts/platforms/glibc.mjs";
import { actionlint, home } from "../../scripts/platforms/toolbox.mjs";
import { node, ROOT } from "../fixtures/node.js";

const read = (...path) => readFileSync(join(ROOT, ...path), "utf8");

test("there is a package for each target, and no other", () => {
  const wanted = platformPackages().map(({ platform }) => platform);
  expect(readdirSync(join(ROOT, "npm")).sort()).toEqual(wanted.sort());
});

test.each(platformPackages())("npm/$platform is installed where it fits", ({ platform }) => {
  const own = JSON.parse(read("npm", platform, "package.json"));
  const [os, cpu, abi] = platform.split("-");
  const main = `syncguard.${platform}.node`;
  const { engines, version } = manifest();
  expect(own).toMatchObject({ os: [os], cpu: [cpu], main, files: [main], engines, version });
  expect(own.libc).toEqual({ gnu: ["glibc"], musl: ["musl"] }[abi]);
});

describe("workflows", () => {
  const folder = join(ROOT, ".github", "workflows");
  const texts = [...readdirSync(folder).map((name) => join(".github", "workflows", name))];
  texts.push(join(".github", "actions", "setup", "action.yml"));

  test("actionlint finds nothing", async () => {
    const result = await node([await actionlint(), ".github/workflows/*.yml"]);
    expect(result).toMatchObject({ code: 0, stderr: "" });
  }, 120_000);

  test.each(texts)("%s runs scripts that exist", (file) => {
    const text = read(file);
    const names = [...text.matchAll(/node (scripts\/\S+\.mjs)/g)].map(([, name]) => name);
    const runs = [...text.matchAll(/npm (?:run )?(start|test|check|build)\b/g)];
    for (const name of names) expect(existsSync(join(ROOT, name)), name).toBe(true);
    for (const [, name] of runs) expect(Object.keys(manifest().scripts)).toContain(name);
    expect(names.length + runs.length).toBeGreaterThan(0);
  });

  test.each(texts)("%s names a version of every action", (file) => {
    const actions = [...read(file).matchAll(/uses: (?!\.\/)(\S+)/g)].map(([, action]) => action);
    for (const action of actions) expect(action).toMatch(/@v\d+|@[0-9a-f]{40}$/);
  });
});

const builds = ["linux-x64-old-glibc", "linux-arm64"].map((name) =>
  join(home, name, "syncguard.node"),
);

test.each(builds.filter((file) => existsSync(file)))(
  "%s needs no newer glibc than Node.js",
  (file) => {
    expect(neededGlibc(file)).toBe("2.17");
  },
);
