// Every code block of the documents is type-checked or parsed, and those marked `run` are run. Blocks
// that need a server run in code.long.test.js.

import { execFileSync } from "node:child_process";
import { load } from "js-yaml";
import { describe, expect, test } from "vitest";
import { parseCommandLine } from "../../js/cli/parse.js";
import { allBlocks, titleOf } from "./blocks.js";
import { needsServer, runBlock, typeErrors } from "./code.js";

const blocks = allBlocks();
const TYPED = ["js", "ts", "tsx", "jsx"];
const isRun = (words) => ["run", "vitest", "jest"].some((word) => words.includes(word));

test("all code that is not run compiles", async () => {
  const typed = blocks.filter(({ lang, words }) => TYPED.includes(lang) && !isRun(words));
  expect(typed.length).toBeGreaterThan(80);
  expect(await typeErrors(typed)).toEqual([]);
}, 120_000);

describe.concurrent("programs", () => {
  const programs = blocks.filter(({ words }) => words.includes("run"));
  test("there are some", () => expect(programs.length).toBeGreaterThan(10));
  test.each(
    programs.filter((block) => !needsServer(block)).map((block) => [titleOf(block), block]),
  )("%s", async (_, block) => {
    const printed = await runBlock(block);
    const next = blocks.find(({ before }) => before === block);
    if (next?.words.includes("output")) expect(printed).toBe(next.text);
  });
});

test("every block has a language, and its words are known", () => {
  const LANGS = [...TYPED, "sh", "text", "json", "yaml", "sql", "dockerfile", "ini", "diff"];
  const WORDS = ["run", "output", "member", "vitest", "jest"];
  const strange = blocks.filter(
    ({ lang, words }) => !LANGS.includes(lang) || words.some((word) => !WORDS.includes(word)),
  );
  expect(strange.map((block) => `${titleOf(block)} ${block.lang} ${block.words}`)).toEqual([]);
});

/** Joins lines that end in a backslash, and returns the commands that call us. */
function ourCommands({ text }) {
  return text
    .replaceAll(/\\\n\s*/g, " ")
    .split("\n")
    .map((line) => line.replace(/\s+#.*$/, ""))
    .flatMap((line) => /(?:^|\s)npx syncguard (.*)$/.exec(line)?.[1] ?? []);
}

/** Splits a command as a shell does, as far as the documents need it. */
const wordsOf = (command) =>
  [...command.replace(/\s+(?:[|&;>]|\d>).*$/, "").matchAll(/(?:"[^"]*"|'[^']*'|[^\s"']+)+/g)].map(
    ([word]) => word.replaceAll(/["']/g, ""),
  );

test("commands are valid", () => {
  const shells = blocks.filter(({ lang }) => lang === "sh");
  const wrong = [];
  for (const block of shells) {
    try {
      execFileSync("bash", ["-n"], { input: block.text, stdio: ["pipe", "ignore", "pipe"] });
    } catch (error) {
      wrong.push(`${titleOf(block)} ${error.stderr}`);
    }
  }
  const commands = blocks.flatMap((block) => ourCommands(block).map((command) => [block, command]));
  expect(commands.length).toBeGreaterThan(10);
  for (const [block, command] of commands) {
    try {
      parseCommandLine(wordsOf(command));
    } catch (error) {
      wrong.push(`${titleOf(block)} ${command}: ${error.message}`);
    }
  }
  expect(wrong).toEqual([]);
});

test("data is well-formed", () => {
  for (const { lang, text } of blocks) {
    if (lang === "json") expect(() => JSON.parse(text), text).not.toThrow();
    if (lang === "yaml") {
      for (const document of text.split(/^---$/m)) expect(() => load(document), text).not.toThrow();
    }
  }
});

test("Dockerfiles have known instructions", () => {
  const files = blocks.filter(({ lang }) => lang === "dockerfile");
  const known = /^(?:FROM|RUN|COPY|WORKDIR|ENV|USER|CMD|ENTRYPOINT|VOLUME|EXPOSE|ARG|#|\s|$)/;
  for (const { text } of files) {
    const lines = text.replaceAll(/\\\n/g, " ").split("\n");
    expect(lines.filter((line) => !known.test(line))).toEqual([]);
    expect(text).toMatch(/^FROM /m);
  }
});
