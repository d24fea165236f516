// Dependencies point one way, in JavaScript and in Rust. These tests read the import and use lines.

import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { describe, expect, test } from "vitest";
import { ROOT } from "../fixtures/node.js";

/** Returns the text of each file below a folder whose name has this ending, by path. */
function sources(folder, ending) {
  const names = readdirSync(join(ROOT, folder), { recursive: true });
  return new Map(
    names
      .map((name) => posix.join(folder, name.replaceAll("\\", "/")))
      .filter((path) => path.endsWith(ending))
      .map((path) => [path, readFileSync(join(ROOT, path), "utf8")]),
  );
}

/** A layer may use the layers before it. The entry points are the files directly in js/. */
const JS_LAYERS = [
  ["base"],
  ["native"],
  ["lock"],
  ["targets", "testing"],
  ["nestjs", "web-locks"],
  ["entry points"],
  ["cli", "cli.js"],
];

function layerOfJs(path) {
  const [, part, ...rest] = path.split("/");
  const name = rest.length === 0 && part !== "cli.js" ? "entry points" : part;
  return JS_LAYERS.findIndex((names) => names.includes(name));
}

/**
 * Returns the modules that a text imports from js/: statically, dynamically, and for their types. The
 * declarations (`index.d.ts`, `types/`) are not modules.
 */
function importsOf(path, text, withTypes) {
  const code = withTypes ? text : text.replace(/\/\*.*?\*\//gs, "");
  return [...code.matchAll(/\b(?:from|import) ?\(? ?"(\.[^"]+)"/g)]
    .map(([, specifier]) => posix.join(posix.dirname(path), specifier))
    .filter((target) => target.startsWith("js/"));
}

/** Returns imports that point the wrong way, and cycles. */
function violationsInJs(files) {
  const found = [];
  for (const [path, text] of files) {
    for (const target of importsOf(path, text, true)) {
      if (layerOfJs(target) > layerOfJs(path)) found.push(`${path} imports ${target}`);
    }
  }
  const done = new Set();
  const visit = (path, trail) => {
    if (trail.includes(path)) {
      found.push(`cycle: ${[...trail.slice(trail.indexOf(path)), path].join(" → ")}`);
    } else if (!done.has(path)) {
      const targets = importsOf(path, files.get(path) ?? "", false);
      for (const target of targets) visit(target, [...trail, path]);
      done.add(path);
    }
  };
  for (const path of files.keys()) visit(path, []);
  return found;
}

describe("JavaScript: base ← native ← lock ← targets ← integrations ← entry points ← cli", () => {
  const files = sources("js", ".js");
  const withLine = (path, line) => new Map([...files, [path, `${line}\n${files.get(path)}`]]);

  test("every file has its layer", () => {
    expect(files.size).toBeGreaterThan(80);
    expect([...files.keys()].filter((path) => layerOfJs(path) < 0)).toEqual([]);
  });

  test("no import points the other way, and there are no cycles", () => {
    expect(violationsInJs(files)).toEqual([]);
  });

  test.each([
    ["js/base/errors.js", 'import { addon } from "../native/addon.js";', "js/native/addon.js"],
    ["js/native/backend.js", 'export { held } from "../lock/held.js";', "js/lock/held.js"],
    ["js/lock/lock.js", 'await import("../targets/open.js");', "js/targets/open.js"],
    ["js/lock/lock.js", '/** @import { A } from "../targets/open.js" */', "js/targets/open.js"],
    ["js/targets/open.js", 'import "../common.js";', "js/common.js"],
    ["js/common.js", 'import "./cli/run.js";', "js/cli/run.js"],
  ])("a wrong import is found: %s, %s", (path, line, target) => {
    expect(violationsInJs(withLine(path, line))).toContain(`${path} imports ${target}`);
  });

  test("a cycle is found", () => {
    const [cycle] = violationsInJs(withLine("js/base/recognize.js", 'import "./errors.js";'));
    expect(cycle).toBe("cycle: js/base/errors.js → js/base/recognize.js → js/base/errors.js");
  });
});

/** The layers of the crate. Each has one or more modules. */
const RUST_LAYERS = [
  ["error", "foreign", "map", "sync"],
  ["lock"],
  ["net", "event_loop"],
  ["backend"],
  ["client"],
  ["node"],
];
const layerOfRust = (name) => RUST_LAYERS.findIndex((names) => names.includes(name));

/** Files that may use everything: test modules, the simulation, and the fuzz targets. */
const SEES_EVERYTHING = /(^|\/)(tests?|simulation|fuzzing)(\.rs$|\/)|^src\/lib\.rs$/;

/** Returns the modules of a file, outermost first: `["backend", "redis"]` for `src/backend/redis/mod.rs`. */
function modulesOf(path) {
  const parts = path
    .replace(/^src\//, "")
    .replace(/\.rs$/, "")
    .split("/");
  return parts.at(-1) === "mod" ? parts.slice(0, -1) : parts;
}

/** Removes comments, and test modules in the same file. */
function rustCode(text) {
  const [code] = text.split(/^#\[cfg\(test\)\]\n(?:pub(?:\([a-z]+\))? )?mod \w+ \{$/m);
  return code.replace(/\/\/.*$/gm, "");
}

/** Splits what follows `crate::` or `super::`: returns one path for each name in the braces, if any. */
function spread(rest) {
  const braces = /^\{([^]*)$/.exec(rest);
  if (braces === null) return [rest];
  const paths = [];
  let [depth, path] = [0, ""];
  for (const sign of braces[1]) {
    if (sign === "{") depth += 1;
    if (sign === "}" && depth-- === 0) break;
    if (sign === "," && depth === 0) {
      paths.push(path);
      path = "";
    } else path += sign;
  }
  return [...paths, path].map((each) => each.trim()).filter(Boolean);
}

/** Returns the paths that a file names, from the root of the crate. */
function pathsIn(path, text) {
  const own = modulesOf(path);
  return [...rustCode(text).matchAll(/\b(crate|(?:super::)*super)::(\w|\{)/g)].flatMap((match) => {
    const [whole, start] = match;
    const rest = match.input.slice(match.index + whole.length - 1);
    const root = start === "crate" ? [] : own.slice(0, -start.split("::").length);
    const named = spread(rest).map((each) => /^[\w:]*/.exec(each)[0].split("::"));
    return named.map((names) => [...root, ...names]);
  });
}

/** Returns uses of a later layer, and uses of one backend by another. */
function violationsInRust(files) {
  const stores = [...files.keys()].map(
    (path) => /^src\/backend\/(\w+)\/backend\.rs$/.exec(path)?.[1],
  );
  const found = new Set();
  for (const [path, text] of files) {
    if (SEES_EVERYTHING.test(path)) continue;
    const [own, store] = modulesOf(path);
    for (const [top, below] of pathsIn(path, text)) {
      if (layerOfRust(top) > layerOfRust(own)) found.add(`${path} uses ${top}`);
      const isOther = own === "backend" && top === "backend" && below !== store;
      if (isOther && stores.includes(below)) found.add(`${path} uses backend::${below}`);
    }
  }
  return [...found];
}

describe("Rust: lock ← net ← backend ← client ← node", () => {
  const files = sources("src", ".rs");
  const withLine = (path, line) => new Map([...files, [path, `${line}\n${files.get(path)}`]]);

  test("every file has its layer", () => {
    expect(files.size).toBeGreaterThan(150);
    const strangers = [...files.keys()].filter(
      (path) => !SEES_EVERYTHING.test(path) && layerOfRust(modulesOf(path)[0]) < 0,
    );
    expect(strangers).toEqual([]);
  });

  test("no use points the other way, and no backend uses another", () => {
    expect(violationsInRust(files)).toEqual([]);
  });

  test.each([
    ["src/lock/key.rs", "use crate::backend::Backend;", "backend"],
    ["src/lock/mod.rs", "pub use super::client::Client;", "client"],
    ["src/error.rs", "use crate::lock::Key;", "lock"],
    ["src/event_loop.rs", "use crate::backend::tls;", "backend"],
    ["src/backend/mod.rs", "use crate::{error::Error, client::{Client, Hold}};", "client"],
    ["src/backend/redis/backend.rs", "fn f() { super::super::super::node::g() }", "node"],
    ["src/client/mod.rs", "use crate::node::Bridge;", "node"],
    ["src/backend/sqlite/backend.rs", "use crate::backend::redis::config;", "backend::redis"],
    ["src/backend/sqlite/mod.rs", "use super::{memory::Store, tls};", "backend::memory"],
  ])("a wrong use is found: %s, %s", (path, line, name) => {
    expect(violationsInRust(withLine(path, line))).toContain(`${path} uses ${name}`);
  });

  test("a comment and a test module may name anything", () => {
    const path = "src/lock/hash.rs";
    const tests = "#[cfg(test)]\nmod tests {\n    use crate::backend::Backend;\n}\n";
    const text = `// as crate::node does\n${tests}`;
    expect(violationsInRust(new Map([[path, text]]))).toEqual([]);
  });
});
