// Writes the pages that are made from other files of the repository: the reference, the examples, the
// decisions, the results of the benchmarks, and the documents of the root folder.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { root } from "../lib/run.mjs";
import { chartsOf } from "./charts.mjs";
import { exampleSources, GENERATED, pageOf, readText } from "./files.mjs";
import { inlinePicture } from "./markdown.mjs";
import { referencePages } from "./reference.mjs";

/** Folders and files from which pages are generated. */
export const SOURCES = [
  "types",
  "examples",
  "bench/results",
  "docs/adr",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
];

/** Returns all generated pages: the file that each is made from, and its Markdown. */
export function generatedPages() {
  return [
    ...referencePages(),
    ...exampleSources().map((source) => ({ source, text: examplePage(source) })),
    copyOf("examples/README.md", "examples/index"),
    ...readdirSync(join(root, "bench/results"))
      .filter((name) => name.endsWith(".md"))
      .map((name) => resultPage(name.slice(0, -".md".length))),
    ...["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map((name) => copyOf(name)),
    { path: "about/decisions", source: "docs/adr", text: decisions() },
  ].map((page) => ({ path: pageOf(page.source), ...page }));
}

/** Writes all of them to `docs/generated/`. */
export function generate() {
  rmSync(join(root, GENERATED), { recursive: true, force: true });
  for (const { path, source, text } of generatedPages()) {
    const file = join(root, GENERATED, `${path}.md`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `---\nsource: ${source}\n---\n\n${text.trimEnd()}\n`);
  }
}

const copyOf = (source, path = pageOf(source)) => ({ source, path, text: readText(source) });

/** A result of a benchmark, with its table as charts. */
function resultPage(name) {
  const page = copyOf(`bench/results/${name}.md`);
  const charts = chartsOf(name).map((svg) => {
    const [, title] = /<title>(.*?)<\/title>/.exec(svg);
    return inlinePicture(svg, title, "div");
  });
  return charts.length ? { ...page, text: [page.text, "## Charts", ...charts].join("\n\n") } : page;
}

/** An example begins with a comment about it. On its page, that is the text above the code. */
function examplePage(source) {
  const text = readText(source);
  const [comment] = /^(?:\/\/.*\n)+/.exec(text) ?? [""];
  const about = comment
    .replace(/^\/\/ ?/gm, "")
    .replace(/(?:^ {2}.*\n)+/gm, (block) => `\n\`\`\`sh\n${block.replace(/^ {2}/gm, "")}\`\`\`\n`);
  const name = source.replace("examples/", "");
  const program = text.slice(comment.length).trim();
  return `# ${name}\n\n${about.trim()}\n\n\`\`\`js\n${program}\n\`\`\`\n`;
}

/** Lists the decisions, with the first paragraph of each. */
function decisions() {
  const rows = readdirSync(join(root, "docs/adr"))
    .filter((name) => name.endsWith(".md"))
    .sort()
    .map((name) => {
      const [, title] = /^# (.+)$/m.exec(readText(`docs/adr/${name}`));
      return `| ${Number(name.slice(0, 4))} | [${title.replace(/^\d+[.:]?\s*/, "")}](/adr/${name.slice(0, -3)}) |`;
    });
  return [
    "# Decisions",
    "Why SyncGuard is built the way it is. Each page states a problem, the decision, and what was measured or tried. A decision that no longer holds names the one that replaced it.",
    ["| | |", "|---|---|", ...rows].join("\n"),
  ].join("\n\n");
}
