// Checks of the declarations as a whole, which a single type test cannot express.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import * as common from "../../js/common.js";
import * as root from "../../js/index.js";
import { completionsOf } from "../fixtures/completions.js";
import { ROOT, run } from "../fixtures/node.js";

const read = (path) => readFileSync(join(ROOT, path), "utf8");
const declarations = readdirSync(join(ROOT, "types"))
  .map((name) => read(`types/${name}`))
  .join("\n");

test("every exported type with a capabilities parameter defaults to fencing", () => {
  const generics = [...declarations.matchAll(/^export (?:type|interface) (\w+)<([^>]*)>/gm)];
  const parameters = generics.filter(([, , text]) => text.includes("BackendCapabilities"));
  expect(parameters.length).toBeGreaterThan(10);
  for (const [, name, text] of parameters) {
    expect(text, name).toMatch(/extends BackendCapabilities = FencingCapabilities,?\s*$/);
  }
});

describe("helpers for authors of backends", () => {
  /** The names that a newcomer looks for. */
  const FOR_USERS = [
    ...["lock", "tryLock", "hold", "tryHold", "lead", "createBackend", "createLock", "LockError"],
    ...["withTelemetry", "listLocks", "forceRelease", "diagnose", "owns", "getByKey", "getById"],
    ...["getByKeyRaw", "getByIdRaw", "lookupDebug", "hasFence", "hashKey", "acquireHandle"],
    "createAutoLock",
  ];
  const helpers = Object.keys(root).filter((name) => !FOR_USERS.includes(name));
  let inRoot, inCommon;
  beforeAll(async () => {
    [inRoot, inCommon] = await completionsOf(["syncguard", "syncguard/common"]);
  }, 120_000);

  test("are marked deprecated in the root module, so that editors list them last", () => {
    const sorted = [...inRoot].sort((a, b) => (a.sortText < b.sortText ? -1 : 1));
    const labels = sorted.map(({ label }) => label);
    expect(labels).toEqual(expect.arrayContaining(Object.keys(root)));
    const firstHelper = sorted.findIndex(({ isDeprecated }) => isDeprecated);
    expect(firstHelper).toBeGreaterThan(FOR_USERS.length);
    expect(labels.slice(firstHelper)).toEqual(expect.arrayContaining(helpers));
    for (const name of FOR_USERS) expect(labels.indexOf(name), name).toBeLessThan(firstHelper);
  });

  test("are not deprecated in syncguard/common", () => {
    expect(inCommon.map(({ label }) => label)).toEqual(expect.arrayContaining(helpers));
    expect(inCommon.filter(({ isDeprecated }) => isDeprecated)).toEqual([]);
  });

  test("are the same objects in the root module", () => {
    for (const name of helpers) expect(root[name], name).toBe(common[name]);
  });

  test("are documented under syncguard/common, and nowhere else", () => {
    const page = read("docs/custom-backends.md");
    const [, list] = page.split("\n## Helpers in `syncguard/common`\n");
    for (const name of helpers) expect(list, name).toMatch(new RegExp(`\`${name}\\b`));
    const pages = ["README.md", ...readdirSync(join(ROOT, "docs")).map((name) => `docs/${name}`)];
    for (const path of pages.filter((name) => name.endsWith(".md"))) {
      const imports = read(path).matchAll(/^import \{([^}]+)\} from "syncguard";$/gm);
      const names = [...imports].flatMap(([, text]) => text.split(",").map((name) => name.trim()));
      expect(
        names.filter((name) => helpers.includes(name)),
        path,
      ).toEqual([]);
    }
  });

  test("the example in the documentation works", async () => {
    const [, program] = /^```js run\n(.*?)^```$/ms.exec(read("docs/custom-backends.md"));
    const { stdout, stderr } = await run(program);
    expect({ stdout, stderr }).toEqual({ stdout: "000000000000001\n", stderr: "" });
  });
});
