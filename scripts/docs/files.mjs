// Which page of the site shows which file of the repository.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { root } from "../lib/run.mjs";

/** The folder of pages that `generate()` writes. git and the npm package leave it out. */
export const GENERATED = "docs/generated";

/** Files of the repository that have a page of their own, which is generated from them. */
const SHOWN = {
  "CHANGELOG.md": "about/changelog",
  "CONTRIBUTING.md": "about/contributing",
  "SECURITY.md": "about/security",
  "README.md": "",
  "examples/README.md": "examples/",
  "docs/adr": "about/decisions",
  examples: "examples/",
  types: "reference/",
};

/** Returns the path of the page that shows a file of the repository, without the first slash. */
export function pageOf(file) {
  const path = file.replace(/\/$/, "");
  if (Object.hasOwn(SHOWN, path)) return SHOWN[path];
  const [, declarations] = /^types\/([\w-]+)\.d\.ts$/.exec(path) ?? [];
  if (declarations) return `reference/${declarations === "common" ? "exports" : declarations}`;
  const [, example] = /^examples\/([\w.-]+)\.mjs$/.exec(path) ?? [];
  if (example) return `examples/${example.replaceAll(".", "-")}`;
  const [, results] = /^bench\/results\/([\w-]+)\.md$/.exec(path) ?? [];
  if (results) return `about/benchmarks/${results}`;
  const [, page] = /^docs\/(?:generated\/)?(.+)\.md$/.exec(path) ?? [];
  return page?.replace(/(^|\/)index$/, "$1");
}

/** Returns all pages that people write, as paths in the repository. */
export function writtenPages() {
  return readdirSync(join(root, "docs"), { recursive: true })
    .map((name) => posix.join("docs", name.replaceAll("\\", "/")))
    .filter((path) => path.endsWith(".md") && !path.startsWith(`${GENERATED}/`))
    .filter((path) => !path.includes("/.vitepress/"))
    .sort();
}

/** Returns the programs in examples/, each of which has a page. */
export function exampleSources() {
  return readdirSync(join(root, "examples"))
    .filter((name) => name.endsWith(".mjs"))
    .map((name) => `examples/${name}`)
    .sort();
}

/** Resolves a link in a file of the repository to another file. */
export const resolveLink = (from, link) => posix.join(dirname(from), link);

export const readText = (path) => readFileSync(join(root, path), "utf8");

/** Makes an anchor from the text of a heading, as the sites that host repositories do. */
export function slugOf(heading) {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}
