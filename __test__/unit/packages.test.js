// The files that are generated from package.json, and the fields that package.json needs for each entry point.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { entries } from "../../scripts/lib/bundle.mjs";
import { derivedFiles, manifest, platformPackages } from "../../scripts/lib/packages.mjs";
import { root } from "../../scripts/lib/run.mjs";

test.each(Object.entries(derivedFiles()))("%s is what npm run packages writes", (path, text) => {
  expect(readFileSync(join(root, path), "utf8")).toBe(text);
});

test("the addon and the package have the same version", () => {
  const { version } = manifest();
  expect(readFileSync(join(root, "Cargo.toml"), "utf8")).toContain(`\nversion = "${version}"\n`);
});

test("platform packages are named by one setting, and restricted to their platform", () => {
  const main = manifest();
  main.napi.packageName = "@owner/other";
  const found = platformPackages(main).find(({ platform }) => platform === "linux-x64-musl");
  expect(found.manifest).toMatchObject({
    ...{ name: "@owner/other-linux-x64-musl", version: main.version, engines: main.engines },
    ...{ os: ["linux"], cpu: ["x64"], libc: ["musl"] },
  });
  const { "js/native/platforms.js": list } = derivedFiles(main);
  expect(list).toContain('PREFIX = "@owner/other-"');
  expect(list).not.toContain(manifest().napi.packageName);
});

const modules = entries().filter((name) => name !== "cli");

test.each(modules)("%s can be imported and required, with types for both", (name) => {
  const { exports, typesVersions } = manifest();
  const types = name === "index" ? "./dist/index.d.ts" : `./dist/types/${name}.d.ts`;
  expect(exports[name === "index" ? "." : `./${name}`]).toEqual({
    import: { types: `./dist/${name}.d.mts`, default: `./dist/${name}.mjs` },
    require: { types, default: `./dist/${name}.js` },
  });
  if (name !== "index") expect(typesVersions["*"][name]).toEqual([types]);
});

test("nothing else is exported", () => {
  const { exports } = manifest();
  expect(Object.keys(exports)).toHaveLength(modules.length + 1);
  expect(exports["./package.json"]).toBe("./package.json");
});
