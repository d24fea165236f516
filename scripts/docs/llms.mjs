// Writes `llms.txt` (a list of all pages) and `llms-full.txt` (their text) for language models.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../lib/run.mjs";
import { GENERATED, readText } from "./files.mjs";
import { SECTIONS } from "./navigation.mjs";

export function writeTexts(folder, site) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "llms.txt"), listOfPages(site));
  writeFileSync(join(folder, "llms-full.txt"), fullText(site));
}

const listOfPages = ({ title, description, project }) =>
  [
    `# ${title}`,
    `> ${description}`,
    ...SECTIONS.map(({ text, pages }) =>
      [
        `## ${text}\n`,
        ...pages.map(([page, label]) => {
          const about = summaryOf(markdownOf(page));
          return `- [${label}](${project.origin ?? ""}${project.base}${page})${about && `: ${about}`}`;
        }),
      ].join("\n"),
    ),
    "",
  ].join("\n\n");

const fullText = ({ title, description, project }) =>
  [
    `# ${title}\n\n> ${description}`,
    ...SECTIONS.flatMap(({ pages }) =>
      pages.map(
        ([page]) => `Page: ${project.origin ?? ""}${project.base}${page}\n\n${markdownOf(page)}`,
      ),
    ),
  ].join("\n\n---\n\n");

/** Returns the text of a page without its front matter. */
export function markdownOf(page) {
  const name = page.endsWith("/") || page === "" ? `${page}index` : page;
  const path = [`docs/${name}.md`, `${GENERATED}/${name}.md`].find((file) =>
    existsSync(join(root, file)),
  );
  return readText(path)
    .replace(/^---\n[^]*?\n---\n/, "")
    .trim();
}

/** Returns the first sentence of a page. */
function summaryOf(markdown) {
  const paragraph = markdown.split("\n\n").find((text) => /^[A-Z`*\[]/.test(text)) ?? "";
  const [sentence] = /^.*?[.:](?=\s|$)/s.exec(paragraph) ?? [paragraph];
  return sentence
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/\s+/g, " ")
    .replace(/:$/, ".");
}
