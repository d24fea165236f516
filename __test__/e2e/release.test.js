// The steps of a release, with fake addons. Nothing is published.

import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { manifest, platformPackages } from "../../scripts/lib/packages.mjs";
import { packRelease, tarball, tarballs } from "../../scripts/release/pack.mjs";
import { publish } from "../../scripts/release/publish.mjs";
import { packageOf, plan } from "../../scripts/release/targets.mjs";

const folder = mkdtempSync(join(tmpdir(), "syncguard-release-"));
const [addons, packed] = ["addons", "packed"].map((name) => join(folder, name));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const packages = platformPackages();
const { name, version } = manifest();

test("every platform has machines to build and test it", () => {
  expect(plan().map(({ target }) => target)).toEqual(manifest().napi.targets);
  for (const { builds, tries } of plan()) expect([builds, tries]).not.toContain(undefined);
  const unknown = [{ target: "sparc-sun-solaris", platform: "solaris-sparc" }];
  expect(() => plan(unknown)).toThrow("no machine to build solaris-sparc");
  expect(() => packageOf("sparc-sun-solaris")).toThrow("not one of napi.targets");
});

describe("packed", () => {
  beforeAll(async () => {
    mkdirSync(addons);
    for (const each of packages) writeFileSync(join(addons, each.manifest.main), "");
    await packRelease(addons, packed);
  }, 120_000);

  test("there is a tarball for every platform and, last, the package", () => {
    const names = [...packages.map((each) => each.name), name];
    const files = names.map((each) => `${each.replace("@", "").replace("/", "-")}-${version}.tgz`);
    expect(tarballs(packed).map((file) => basename(file))).toEqual(files);
  });

  test("a missing addon stops the release", async () => {
    const [{ manifest }] = packages;
    rmSync(join(addons, manifest.main));
    await expect(packRelease(addons, packed)).rejects.toThrow(`There is no ${manifest.main}`);
    writeFileSync(join(addons, manifest.main), "");
  });

  describe("publish", () => {
    const print = vi.spyOn(console, "log").mockImplementation(() => {});
    afterEach(() => print.mockClear());
    afterAll(() => print.mockRestore());
    const project = { version, repository: "owner/repository" };
    const said = () => print.mock.calls.map(([line]) => line);

    test("a dry run prints the commands and runs none", async () => {
      const run = vi.fn();
      await publish(packed, { dryRun: true, run, project: { version } });
      expect(run).not.toHaveBeenCalled();
      expect(said().map((line) => line.split(" ")[2])).toEqual(tarballs(packed));
    });

    test("the platforms come first, all with provenance", async () => {
      const run = vi.fn();
      await publish(packed, { dryRun: false, run, project, tag: `v${version}` });
      const calls = run.mock.calls.map(([args]) => args);
      expect(calls.map(([, file]) => file)).toEqual(tarballs(packed));
      for (const args of calls) expect(args).toContain("--provenance");
    });

    test.each([
      ["no repository is known", { project: { version } }, "no `repository`"],
      ["the tag is of another version", { project, tag: "v0.0.0" }, "v0.0.0 is not the version"],
    ])("it is refused when %s", async (_, options, message) => {
      const run = vi.fn();
      await expect(publish(packed, { dryRun: false, run, ...options })).rejects.toThrow(message);
      expect(run).not.toHaveBeenCalled();
    });

    test("nothing is published if the last tarball is missing", async () => {
      const run = vi.fn();
      const last = tarball(packed, name);
      renameSync(last, `${last}.away`);
      await expect(publish(packed, { dryRun: false, run, project })).rejects.toThrow("is missing");
      expect(run).not.toHaveBeenCalled();
      renameSync(`${last}.away`, last);
    });
  });
});
