// Runs package linters: types and modules must match for every kind of resolution.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { afterAll, beforeAll, expect, test } from "vitest";
import { pack } from "../../scripts/lib/pack.mjs";

const folder = mkdtempSync(join(tmpdir(), "syncguard-lint-"));
let packed;
beforeAll(async () => {
  packed = (await pack(folder)).map(({ manifest, path }) => ({
    manifest,
    data: readFileSync(path),
  }));
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("publint finds no problems in the package and the platform package", async () => {
  for (const { manifest, data } of packed) {
    const tarball = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
    const { messages } = await publint({ pack: { tarball }, strict: true });
    expect(messages.map((message) => formatMessage(message, manifest))).toEqual([]);
  }
});

test("the types are right for every kind of resolution, including node10", async () => {
  const { manifest, data } = packed.at(-1);
  const result = await checkPackage(createPackageFromTarballData(data));
  expect(result.problems).toEqual([]);
  const entries = Object.keys(manifest.exports).filter((name) => name !== "./package.json");
  for (const name of entries) {
    const { resolutions } = result.entrypoints[name];
    expect(Object.keys(resolutions)).toEqual(["node10", "node16-cjs", "node16-esm", "bundler"]);
    for (const { resolution } of Object.values(resolutions)) expect(resolution).toBeDefined();
  }
});
