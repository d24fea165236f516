// docs/conformance.md: each requirement has its tests, and they exist and run.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseAst } from "rolldown/parseAst";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const tests = join(root, "__test__");
const read = (file) => readFileSync(file, "utf8");

const DOCUMENTS = ["interface", "core", "redis", "firestore", "adr"];
const LEVELS = ["must", "must not", "never", "should", "should not"];

const rows = read(join(root, "docs/conformance.md"))
  .split("\n")
  .filter((line) => new RegExp(`^\\| (${DOCUMENTS.join("|")})-`).test(line))
  .map((line) => {
    const [id, level, required, done, proof, ...more] = line.slice(2, -2).split(" | ");
    return { id, level, required, done, proof, more };
  });

/** The names of a call such as test.concurrent.each(…)(…), outermost first. */
function names(callee) {
  if (callee.type === "Identifier") return [callee.name];
  if (callee.type === "MemberExpression") return [...names(callee.object), callee.property.name];
  if (callee.type === "CallExpression") return names(callee.callee);
  return [];
}

function titlesIn(node) {
  if (node === null || typeof node !== "object") return [];
  const below = Object.values(node).flatMap(titlesIn);
  // A behaviour of js/testing/, of which testBackend() makes a test.
  if (node.type === "Property" && node.key.name === "title" && node.value.type === "Literal") {
    return [node.value.value];
  }
  if (node.type !== "CallExpression") return below;
  const [name, ...how] = names(node.callee);
  const title = node.arguments[0]?.value;
  const isTest = name === "test" && !how.includes("skip") && !how.includes("todo");
  return isTest && typeof title === "string" ? [title, ...below] : below;
}

function rustTests(text) {
  const marked = /((?:#\[[^\]]+\]\s*)+)(?:async )?fn (\w+)/g;
  const single = [...text.matchAll(marked)]
    .filter(([, attributes]) => /#\[(tokio::)?test\b/.test(attributes))
    .filter(([, attributes]) => !attributes.includes("#[ignore"))
    .map(([, , name]) => name);
  const listed = [...text.matchAll(/^over_both!\(([^)]+)\);/gm)];
  return [...single, ...listed.flatMap(([, list]) => list.match(/\w+/g))];
}

/** The test files, and all that they import. */
function whatRuns() {
  const open = readdirSync(tests, { recursive: true })
    .filter((name) => name.endsWith(".test.js"))
    .map((name) => join(tests, name));
  const seen = new Set();
  for (let file = open.pop(); file; file = open.pop()) {
    if (seen.has(file) || !existsSync(file)) continue;
    seen.add(file);
    for (const [, path] of read(file).matchAll(/from "(\.[^"]+)"/g)) {
      open.push(join(dirname(file), path));
    }
  }
  return seen;
}

const running = whatRuns();
const known = new Map();
function titlesOf(name) {
  if (!known.has(name)) known.set(name, findTitles(name, join(root, name)));
  return known.get(name);
}
function findTitles(name, file) {
  if (!existsSync(file)) return [];
  if (name.endsWith(".rs")) return rustTests(read(file));
  // For the compiler, as a whole.
  if (name.endsWith(".ts")) return [""];
  return running.has(file) ? titlesIn(parseAst(read(file))) : [];
}

const NAMED = /^`([^`]+)` ?(.*)$/;
const AGAIN = /^as ([a-z]+-\d+)$/;
const NONE = /^none: \S.+$/;

test("ids are in order, without a gap", () => {
  const counted = new Map(DOCUMENTS.map((name) => [name, 0]));
  const expected = rows.map(({ id }) => {
    const [name] = id.split("-");
    counted.set(name, counted.get(name) + 1);
    return `${name}-${counted.get(name)}`;
  });
  expect(rows.map(({ id }) => id)).toEqual(expected);
  expect([...new Set(expected.map((id) => id.split("-")[0]))]).toEqual(DOCUMENTS);
});

test("every row has a level, a requirement, what is done, and tests or a reason", () => {
  for (const { level, required, done, proof, more, id } of rows) {
    expect(LEVELS, id).toContain(level);
    for (const text of [required, done]) expect(text, id).toMatch(/\S/);
    expect(more, id).toEqual([]);
    const parts = NONE.test(proof) || AGAIN.test(proof) ? [] : proof.split("<br>");
    for (const part of parts) expect(part, id).toMatch(NAMED);
  }
});

test("a row that refers to another requirement refers to one with tests of its own", () => {
  const by = new Map(rows.map((row) => [row.id, row]));
  const lost = rows.filter(({ proof }) => {
    const [, id] = AGAIN.exec(proof) ?? [];
    return id && (!by.has(id) || AGAIN.test(by.get(id).proof));
  });
  expect(lost.map(({ id }) => id)).toEqual([]);
});

test("every test that is named exists and runs", () => {
  const missing = rows.flatMap(({ id, proof }) =>
    proof
      .split("<br>")
      .map((part) => NAMED.exec(part))
      .filter((part) => part && !titlesOf(part[1]).includes(part[2]))
      .map(([, file, title]) => `${id}: ${file} "${title}"`),
  );
  expect(missing).toEqual([]);
});
