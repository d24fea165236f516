// The files, links and exports that the documents name exist.

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { BACKEND_LIMITS } from "../../js/common.js";
import { slugOf } from "../../scripts/docs/files.mjs";
import { DOCUMENTS } from "../docs/blocks.js";

const require = createRequire(import.meta.url);
const root = join(import.meta.dirname, "../..");
const read = (path) => readFileSync(join(root, path), "utf8");

/** Returns the files and folders of this repository that the text names. Placeholders do not count. */
const PATH = /`((?:src|js|types|scripts|bench|docs|npm|__test__|examples)\/[^`\s<*]+)`/g;
const LINK = /\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g;
const IMPORT = /^import \{([^}]+)\} from "(syncguard[^"]*)";$/gm;

/** Returns the names in the braces of an import, without types. */
const valuesOf = (names) =>
  names
    .split(",")
    .map((name) => name.trim())
    .filter((name) => !name.startsWith("type "));

const anchors = (markdown) =>
  [...markdown.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => slugOf(heading));

describe.each(DOCUMENTS)("%s", (page) => {
  const markdown = read(page);
  const prose = markdown.replaceAll(/^```.*?^```$/gms, "");

  test("names files that exist", () => {
    const missing = [...markdown.matchAll(PATH)]
      .map(([, path]) => path)
      .filter((path) => !existsSync(join(root, path)));
    expect(missing).toEqual([]);
  });

  test("links lead to existing targets", () => {
    const broken = [...prose.matchAll(LINK)].filter(([, path, anchor]) => {
      const target = path === "" ? page : join(dirname(page), path);
      if (!existsSync(join(root, target))) return true;
      return anchor !== undefined && !anchors(read(target)).includes(anchor);
    });
    expect(broken.map(([link]) => link)).toEqual([]);
  });

  test("imports only what is exported", async () => {
    const { exports } = JSON.parse(read("package.json"));
    for (const [, names, module] of markdown.matchAll(IMPORT)) {
      const entry = exports[module.replace("syncguard", ".")].require.default;
      const exported = Object.keys(require(join(root, entry)));
      expect(exported).toEqual(expect.arrayContaining(valuesOf(names)));
    }
  });
});

test.each(Object.entries(BACKEND_LIMITS))(
  "the page of %s tells how long a stored key may be",
  (backend, bytes) => {
    const page = read(`docs/${backend.toLowerCase()}.md`);
    expect(page).toMatch(
      new RegExp(`\\b${bytes}\\b[^.|]*\\bbytes\\b|\\bbytes\\b[^.|]*\\b${bytes}\\b`),
    );
  },
);

test("the architecture names the files of a call, of a wait and of a heartbeat", () => {
  const markdown = read("docs/architecture.md");
  const sections = markdown.split(/^## /m).filter((section) => section.startsWith("The way of"));
  expect(sections).toHaveLength(3);
  for (const section of sections) expect([...section.matchAll(PATH)].length).toBeGreaterThan(5);
});

/** The facts that the specification wants to be documented. */
const TOLD = [
  ["docs/benchmarks.md", "how fast it is", /\| SQLite, "normal": p50 \| .*µs/],
  ["docs/reference/api.md", "looking is no guard", /Use these for diagnostics, never as a guard/],
  ["docs/redis.md", "what cleaning up costs", /`cleanupInIsLocked`.*turns a read into a write/],
  ["docs/postgres.md", "what cleaning up costs", /`cleanupInIsLocked`.*turns a read into a write/],
  ["docs/firestore.md", "what cleaning up costs", /`cleanupInIsLocked`.*turns a read into a write/],
  ["docs/firestore.md", "what becomes of locks when clocks differ", /## Clocks[^#]*synchronised/],
  ["docs/firestore.md", "which index it needs", /field `lockId`\. Firestore indexes it/],
];

test.each(TOLD)("%s documents %s", (page, _, words) => {
  expect(read(page)).toMatch(words);
});

test.each(["redis", "postgres", "firestore", "sqlite"])(
  "the page of %s has a table of its errors",
  (backend) => {
    const cells = read(`docs/${backend}.md`)
      .split("\n")
      .filter((line) => line.startsWith("|"))
      .join("\n");
    for (const code of ["NetworkTimeout", "ServiceUnavailable", "Internal"]) {
      expect(cells).toContain(`\`${code}\``);
    }
  },
);
