// The steps of a release, on a project with stand-ins for the addons. Nothing is published.

import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { pack, prepare } from "../../scripts/release/pack.mjs";
import { publish } from "../../scripts/release/publish.mjs";
import { platformOf, platforms, readProject } from "../../scripts/release/targets.mjs";
import { ROOT } from "../fixtures/node.js";

const project = mkdtempSync(join(tmpdir(), "syncguard-release-"));
const tarballs = join(project, "tarballs");
afterAll(() => rmSync(project, { recursive: true, force: true }));

const write = (file, value) => writeFileSync(file, JSON.stringify(value));

beforeAll(async () => {
  const { devDependencies, ...main } = readProject(ROOT);
  write(join(project, "package.json"), main);
  cpSync(join(ROOT, "npm"), join(project, "npm"), { recursive: true });
  for (const { folder, addon } of platforms(project)) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, addon), "");
  }
  prepare(project);
  await pack(project, tarballs);
}, 120_000);

describe("prepare", () => {
  test("the package depends on every platform, in its own version", () => {
    const { version, optionalDependencies } = readProject(project);
    const wanted = platforms(project).map(({ name }) => [name, version]);
    expect(optionalDependencies).toEqual(Object.fromEntries(wanted));
  });

  test("what the owner has set reaches every package", () => {
    const main = readProject(project);
    const repository = { type: "git", url: "git+https://example.com/owner/repository.git" };
    write(join(project, "package.json"), { ...main, repository, version: "9.9.9" });
    prepare(project);
    for (const { folder } of platforms(project)) {
      expect(readProject(folder)).toMatchObject({ repository, version: "9.9.9" });
    }
    write(join(project, "package.json"), main);
    prepare(project);
  });
});

test("a platform without its addon is not packed", async () => {
  const [platform] = platforms(project);
  const missing = { ...platform, addon: "missing.node" };
  await expect(pack(project, tarballs, [missing])).rejects.toThrow("missing.node is missing");
});

test("an unknown target is refused", () => {
  expect(() => platformOf(project, "sparc-unknown-none")).toThrow("not one of napi.targets");
});

describe("publish", () => {
  const expected = () => [...platforms(project).map(({ name }) => name), readProject(project).name];

  /** The packages that npm was asked to publish, in that order. */
  async function published(options) {
    const calls = [];
    const print = vi.spyOn(console, "log").mockImplementation((line) => calls.push(line));
    const run = async (args) => calls.push(`npm ${args.join(" ")}`);
    try {
      await publish(project, tarballs, { run, ...options });
    } finally {
      print.mockRestore();
    }
    for (const call of calls) expect(call).toMatch(/^npm publish .* --provenance --access public/);
    return calls.map((call) => basename(call.split(" ")[2]));
  }
  const files = () => {
    const { version } = readProject(project);
    return expected().map((name) => `${name.replace("@", "").replace("/", "-")}-${version}.tgz`);
  };

  test("the platforms come first; a dry run runs nothing", async () => {
    const run = () => Promise.reject(new Error("published"));
    expect(await published({ dryRun: true, run })).toEqual(files());
  });

  test("without a repository it is refused", async () => {
    await expect(published({ dryRun: false })).rejects.toThrow("no `repository`");
  });

  test("with one, the same order", async () => {
    const main = readProject(project);
    write(join(project, "package.json"), { ...main, repository: "owner/repository" });
    expect(await published({ dryRun: false, tag: `v${main.version}` })).toEqual(files());
    await expect(published({ dryRun: false, tag: "v0.0.0" })).rejects.toThrow("v0.0.0");
    write(join(project, "package.json"), main);
  });

  test("a tarball that is missing stops it before anything is published", async () => {
    const first = files().at(-1);
    const text = readFileSync(join(tarballs, first));
    rmSync(join(tarballs, first));
    const run = vi.fn();
    await expect(publish(project, tarballs, { dryRun: true, run })).rejects.toThrow("is missing");
    expect(run).not.toHaveBeenCalled();
    writeFileSync(join(tarballs, first), text);
  });
});
