// The code blocks of the documents.
//
//   ```js            is type-checked, as a file of its own
//   ```js run        is run instead, and has to end without an error
//   ```text output   is what the block before it prints
//   ```ts member     is type-checked as the members of a class
//   ```js vitest     is run by vitest (`jest`: by Jest)
//
// Names that a block does not declare are in `stand-ins.d.ts` and `stand-ins.mjs`.

import { ROOT } from "../fixtures/node.js";
import { readText, writtenPages } from "../../scripts/docs/files.mjs";

/** All documents that people read. */
export const DOCUMENTS = [
  ...["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "examples/README.md"],
  ...writtenPages(),
];

/**
 * @typedef {object} Block
 * @property {string} page
 * @property {number} line of the first line of code
 * @property {string} lang
 * @property {string[]} words after the language
 * @property {string} text
 * @property {Block | undefined} before on the same page
 */

/** @returns {Block[]} */
export function blocksOf(page, markdown = readText(page)) {
  const blocks = [];
  const pattern = /^([ \t]*)(`{3,})([^\n`]*)\n(.*?)^\1\2$/gms;
  for (const { index, 1: indent, 3: info, 4: text } of markdown.matchAll(pattern)) {
    const [lang = "", ...words] = info
      .trim()
      .split(/\s+/)
      .filter((word) => !/^[{[]/.test(word));
    const line = markdown.slice(0, index).split("\n").length + 1;
    const unindented = text.replace(new RegExp(`^${indent}`, "gm"), "");
    blocks.push({ page, line, lang, words, text: unindented, before: blocks.at(-1) });
  }
  return blocks;
}

export const allBlocks = () => DOCUMENTS.flatMap((page) => blocksOf(page));

export const titleOf = ({ page, line }) => `${page}:${line}`;

/** The name of the file that holds a block, for tools that report names. */
export const fileOf = ({ page, line, lang, text }) => {
  const stem = page.replace(/\.md$/, "").replaceAll(/[^\w]+/g, "-");
  const isCommonJs =
    lang === "js" && !/^(?:import|export|await)\b/m.test(text) && /\brequire\(/.test(text);
  return `${stem}-${line}.${isCommonJs ? "cjs" : { js: "mjs", ts: "mts", tsx: "tsx", jsx: "jsx" }[lang]}`;
};

export { ROOT };
