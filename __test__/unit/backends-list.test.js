// Checks that every backend has what "Add a backend" in CONTRIBUTING asks for.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createBackend } from "../fixtures/api.js";

const root = join(import.meta.dirname, "../..");
const text = (path) => readFileSync(join(root, path), "utf8");
const folders = (path) =>
  readdirSync(join(root, path), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name);

const listed = [...text("src/node/open.rs").matchAll(/^ +"([a-z0-9]+)" =>/gm)].map(
  ([, name]) => name,
);
const { exports } = JSON.parse(text("package.json"));
const schemes = [
  ...text("js/targets/open.js").matchAll(/^ +"([a-z]+:)":.* create(\w+)Backend\(/gm),
];

/** The folder of custom backends, which are not opened by name. */
const OWN = "javascript";
/** Backends that connect to nothing, so they have no errors of a driver. */
const WITHOUT_DRIVER = ["memory"];
/** The part of a URL that is needed besides the scheme. */
const NEEDED = {
  "firestore:": "//project?emulatorHost=127.0.0.1:1",
  "postgres:": "//127.0.0.1/locks",
};

test("JavaScript and Rust list the same backends", () => {
  expect(listed).toContain("redis");
  const backends = folders("src/backend").filter((name) =>
    existsSync(join(root, "src/backend", name, "backend.rs")),
  );
  expect(backends.sort()).toEqual([...listed, OWN].sort());
  expect(folders("js/targets").sort()).toEqual([...listed].sort());
});

describe.each(listed)("%s", (name) => {
  const has = (path) => expect(existsSync(join(root, path)), path).toBe(true);

  test("has the same file names as the others", () => {
    const driver = WITHOUT_DRIVER.includes(name) ? [] : ["connections", "error"];
    for (const file of ["mod", "config", "backend", "watch", ...driver]) {
      const isFolder = existsSync(join(root, "src/backend", name, file));
      has(`src/backend/${name}/${isFolder ? `${file}/mod` : file}.rs`);
    }
    has(`js/targets/${name}/backend.js`);
  });

  test("has an entry point with types", async () => {
    expect(Object.keys(exports)).toContain(`./${name}`);
    has(`types/${name}.d.ts`);
    const entry = await import(`../../js/${name}.js`);
    const create = Object.keys(entry).find((key) => key.toLowerCase() === `create${name}backend`);
    expect(entry[create]).toBeTypeOf("function");
    expect(entry.createLock).toBeTypeOf("function");
  });

  test("has a URL scheme that opens it", async () => {
    const [, scheme] = schemes.find(([, , kind]) => kind.toLowerCase() === name) ?? [];
    expect(scheme, "a line in SCHEMES").toMatch(/^\w+:$/);
    const backend = createBackend(scheme + (NEEDED[scheme] ?? ""));
    expect(backend.capabilities.backend).toBe(name);
    await backend.close();
  });

  test("passes the contract, and is documented", () => {
    expect(text(`__test__/contracts/${name}.test.js`)).toMatch(/^contract\(/m);
    expect(text(`docs/${name}.md`)).toContain(`from "syncguard/${name}"`);
    expect(text("README.md")).toMatch(
      new RegExp(`^\\| \\[\`syncguard/${name}\`\\]\\(docs/${name}\\.md\\)`, "m"),
    );
  });
});
