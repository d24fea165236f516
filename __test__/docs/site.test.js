// The parts of the documentation site that need no browser.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { configOf } from "../../docs/.vitepress/config.mjs";
import * as errors from "../../js/base/errors.js";
import { GENERATED, pageOf, writtenPages } from "../../scripts/docs/files.mjs";
import { generatedPages } from "../../scripts/docs/generate.mjs";
import { SECTIONS } from "../../scripts/docs/navigation.mjs";
import { readTables } from "../../scripts/docs/charts.mjs";
import { PICTURES } from "../../scripts/docs/pictures.mjs";
import { linesOf, play } from "../../scripts/docs/recording.mjs";
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

describe("charts", () => {
  test("have the figures of the results", () => {
    const [table] = readTables("redis");
    const row = table.rows.find(({ name }) => name.startsWith("throughput, 64"));
    const chart = PICTURES["benchmark-throughput"];
    expect(row.cells.length).toBeGreaterThan(4);
    for (const figure of row.cells) expect(chart).toContain(`>${figure.toLocaleString("en-US")}<`);
    for (const library of table.head) expect(chart).toContain(`>${library}<`);
  });

  test("the page of the benchmarks names all results", () => {
    const text = read("docs/benchmarks.md");
    for (const name of readdirSync(join(ROOT, "bench/results"))) {
      if (name.endsWith(".md")) expect(text).toContain(`\`bench/results/${name}\``);
    }
  });

  test("figures of the text are those of the results", () => {
    const [{ rows }] = readTables("handover");
    const p50 = (name) => rows.find((row) => row.name === name).cells[0];
    const text = read("docs/benchmarks.md");
    expect(text).toContain(`| SyncGuard on Redis | ${p50("syncguard/redis").toFixed(1)} ms`);
    expect(text).toContain(`| \`redlock\` | ${Math.round(p50("redlock"))} ms`);
    expect(read("README.md")).toContain(`| **${p50("syncguard/redis").toFixed(1)} ms** |`);
  });
});

describe("the recording of the demo", () => {
  const svg = read("docs/pictures/demo.svg");

  test("shows what the demo prints, and that no update is lost under the lock", () => {
    expect(svg).toContain("4 processes add 1 to the same counter, 50 times each.");
    expect(svg).toMatch(/the counter says \d+: [1-9]\d* updates were lost/);
    expect(svg).toContain("the counter says 200: 0 updates were lost");
  });

  test("shows its end to people who want no animation", () => {
    const [, rules] = /<style>(.*)<\/style>/.exec(svg);
    expect(rules).toMatch(/^@media\(prefers-reduced-motion:no-preference\)/);
    const visible = svg.split("\n").filter((line) => /^<g class="s\d+">/.test(line));
    expect(visible.filter((line) => line.includes("0 updates were lost"))).toHaveLength(1);
    expect(visible.filter((line) => line.includes("Without a lock"))).toHaveLength(1);
  });

  test("follows a terminal: a carriage return overwrites a line", () => {
    const lines = linesOf([
      { at: 0, text: "one 0/2" },
      { at: 1_000, text: "\rone 1/2" },
      { at: 2_000, text: "\rone 2/2\r\n" },
      { at: 2_001, text: "  done\r\n" },
    ]);
    expect(lines.map((states) => states.map(({ text }) => text))).toEqual([
      ["one 0/2", "one 1/2", "one 2/2"],
      ["  done"],
      [],
    ]);
    const states = play("A title", lines).match(/<g class="s\d+"(?: visibility="hidden")?>/g);
    expect(states.map((state) => state.includes("hidden"))).toEqual([true, true, false, false]);
  });
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

  test("each page has an edit link and a canonical URL as soon as it is known", () => {
    const page = { page: "guides/fencing.md", pageData: {} };
    const unknown = configOf(describeProject({}));
    expect(unknown.themeConfig.editLink).toBeUndefined();
    expect(unknown.transformHead(page)).toEqual([]);
    const known = configOf(
      describeProject({ repository: "o/p", homepage: "https://docs.example/p" }),
    );
    expect(known.base).toBe("/p/");
    expect(known.transformHead(page)).toEqual([
      ["link", { rel: "canonical", href: "https://docs.example/p/guides/fencing" }],
    ]);
    const { pattern } = known.themeConfig.editLink;
    const edited = (filePath, frontmatter = {}) => pattern({ filePath, frontmatter });
    expect(edited("guides/fencing.md")).toBe(
      "https://github.com/o/p/edit/main/docs/guides/fencing.md",
    );
    // A generated page leads to the file that it is made from.
    const source = { source: "types/lock.d.ts" };
    expect(edited("generated/reference/lock.md", source)).toBe(
      "https://github.com/o/p/edit/main/types/lock.d.ts",
    );
  });
});
