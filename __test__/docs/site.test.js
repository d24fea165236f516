// The parts of the documentation site that need no browser.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import * as errors from "../../js/base/errors.js";
import { GENERATED, pageOf, writtenPages } from "../../scripts/docs/files.mjs";
import { generatedPages } from "../../scripts/docs/generate.mjs";
import { SECTIONS } from "../../scripts/docs/navigation.mjs";
import { PICTURES } from "../../scripts/docs/pictures.mjs";
import { exportsByModule } from "../../scripts/docs/reference.mjs";
import { describeProject } from "../../scripts/docs/repository.mjs";
import { ROOT } from "./blocks.js";

const read = (path) => readFileSync(join(ROOT, path), "utf8");
const pages = generatedPages();

describe("navigation", () => {
  const listed = SECTIONS.flatMap(({ pages }) => pages.map(([page]) => page));
  const existing = [
    ...writtenPages().map(pageOf),
    ...pages.map(({ path }) => pageOf(`docs/${path}.md`)),
  ];

  test("names each page once", () => expect(new Set(listed).size).toBe(listed.length));

  test("names pages that exist", () => {
    expect(listed.filter((page) => !existing.includes(page))).toEqual([]);
  });

  test("names all pages, except those that a list of their own leads to", () => {
    const missing = existing.filter((page) => page !== "" && !listed.includes(page));
    const lists = /^(?:adr|examples|about\/benchmarks)\//;
    expect(missing.filter((page) => !lists.test(page))).toEqual([]);
  });
});

describe("the reference", () => {
  const reference = pages.filter(({ path }) => path.startsWith("reference/"));
  const texts = reference.map(({ text }) => text);

  test("has every export of every module", () => {
    const modules = exportsByModule();
    expect(Object.keys(modules).length).toBeGreaterThan(10);
    const list = reference.find(({ path }) => path === "reference/exports").text;
    for (const [module, names] of Object.entries(modules)) {
      for (const name of names) {
        const row = list.split("\n").find((line) => line.startsWith(`| [\`${name}\`]`));
        expect(row, `${name} of ${module}`).toBeDefined();
        expect(
          texts.some((text) => text.includes(`\n## ${name}\n`)),
          name,
        ).toBe(true);
      }
    }
  });

  test("has every option with its default", () => {
    const redis = reference.find(({ path }) => path === "reference/redis").text;
    expect(redis).toMatch(/^\| `keyPrefix\?` \| `string` \| `"syncguard"` \|/m);
    // Inherited from ConnectionOptions.
    expect(redis).toMatch(/^\| `releaseOnExit\?` \| `boolean` \| `true` \|/m);
    const lock = reference.find(({ path }) => path === "reference/lock").text;
    expect(lock).toMatch(/^\| `retryDelayMs\?` \| `number` \| `100` \|/m);
  });

  test("every error code has one anchor, with its cause and its remedy", () => {
    const declared = read("types/errors.d.ts").matchAll(/^ {2}\| "(\w+)"/gm);
    const codes = [...declared].map(([, code]) => code);
    expect(codes.length).toBeGreaterThan(8);
    const sections = read("docs/reference/error-codes.md").split(/^## /m);
    for (const code of codes) {
      const own = sections.filter((text) => text.startsWith(`${code}\n`));
      expect(own, code).toHaveLength(1);
      if (code !== "InvalidArgument") {
        expect(own[0]).toContain("**Cause.**");
        expect(own[0]).toContain("**Remedy.**");
      } else expect(own[0]).toContain("| cause | remedy |");
    }
    expect(errors.LockError).toBeDefined();
  });
});

test("the pictures are drawn by their script", () => {
  for (const [name, svg] of Object.entries(PICTURES)) {
    expect(read(`docs/pictures/${name}.svg`), `node scripts/docs/pictures.mjs`).toBe(svg);
  }
});

test("all pictures suit both colour schemes", () => {
  for (const name of Object.keys(PICTURES)) {
    const svg = read(`docs/pictures/${name}.svg`);
    const outside = svg.replace(/<style>.*<\/style>/, "");
    expect(svg).toContain("prefers-color-scheme:dark");
    expect(outside.match(/(?:fill|stroke)="#[\da-f]+"/i), name).toBeNull();
  }
});

test("generated pages are not in the repository", () => {
  expect(read(".gitignore")).toContain(`/${GENERATED}/`);
  expect(JSON.parse(read("package.json")).files).toContain(`!${GENERATED}`);
  expect(existsSync(join(ROOT, "docs/index.md"))).toBe(true);
});

describe("what the site knows about the repository", () => {
  test.each([
    [undefined, undefined],
    ["owner/project", "https://github.com/owner/project"],
    ["gitlab:owner/project", "https://gitlab.com/owner/project"],
    [
      { type: "git", url: "git+https://github.com/owner/project.git" },
      "https://github.com/owner/project",
    ],
    ["git@github.com:owner/project.git", "https://github.com/owner/project"],
    ["ssh://git@example.com/owner/project.git", "https://example.com/owner/project"],
  ])("repository: %j", (repository, web) => {
    const project = describeProject({ repository });
    expect(project.web).toBe(web);
    expect(project.editUrl("docs/redis.md")).toBe(web && editUrlOf(web));
  });

  const editUrlOf = (web) => `${web}${web.includes("gitlab") ? "/-" : ""}/edit/main/docs/redis.md`;

  test.each([
    [{}, undefined, "/"],
    [{ homepage: "https://docs.example" }, "https://docs.example", "/"],
    [{ homepage: "https://owner.github.io/project" }, "https://owner.github.io", "/project/"],
    // What `npm init` writes is not the site.
    [{ repository: "o/p", homepage: "https://github.com/o/p#readme" }, undefined, "/"],
  ])("%j", (manifest, origin, base) => {
    expect(describeProject(manifest)).toMatchObject({ origin, base });
  });
});
