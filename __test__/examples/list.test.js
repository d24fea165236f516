// Checks that the README lists the examples, and that they can be read as documentation.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ROOT } from "../fixtures/node.js";

const folder = join(ROOT, "examples");
const read = (name) => readFileSync(join(folder, name), "utf8");
const programs = readdirSync(folder).filter((name) => name !== "README.md");

test("the README lists every example and nothing else", () => {
  const links = [...read("README.md").matchAll(/\]\(([^)]+)\)/g)].map(([, link]) => link);
  expect(links.sort()).toEqual(programs.sort());
});

describe.each(programs)("%s", (name) => {
  const text = read(name);

  test("begins with a comment and is short", () => {
    expect(text).toMatch(/^\/\/ /);
    expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(80);
  });

  test("imports the package by its name", () => {
    const imports = [...text.matchAll(/ from "([^"]+)"/g)].map(([, module]) => module);
    expect(imports.some((module) => /^syncguard(\/|$)/.test(module))).toBe(true);
    expect(imports.filter((module) => module.startsWith(".."))).toEqual([]);
  });
});
