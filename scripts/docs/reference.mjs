// Writes the reference from the `.d.ts` files: one page for each of them, with every export, its
// signatures, members, defaults and examples, and a list of all exports.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript6";
import { root } from "../lib/run.mjs";
import { slugOf } from "./files.mjs";

const TITLES = {
  backend: "Backends and their operations",
  constants: "Constants",
  custom: "For your own backend",
  errors: "LockError",
  handles: "Handles",
  lock: "lock, tryLock, hold, tryHold, lead",
  lookup: "Looking around",
  open: "createBackend, createLock",
  results: "Results",
  telemetry: "Telemetry",
  values: "Keys, ids, fences, time",
};

/**
 * Returns the pages: `{ path, source, text }`. A page's `source` is the file that it documents.
 * @returns {{ path: string, source: string, text: string }[]}
 */
export function referencePages() {
  const { checker, files } = readDeclarations();
  const entries = readEntries(checker, files);
  const index = indexExports(checker, files, entries);
  const pages = [...files.values()]
    .filter(({ name }) => name !== "index" && name !== "common")
    .map((file) => ({
      path: `reference/${file.name}`,
      source: `types/${file.name}.d.ts`,
      text: pageOfFile(file, checker, index),
    }));
  return [
    ...pages,
    { path: "reference/exports", source: "types/common.d.ts", text: listOf(index) },
  ];
}

/** Returns the names that each module exports, by module. For tests. */
export function exportsByModule() {
  const { checker, files } = readDeclarations();
  const entries = readEntries(checker, files);
  return Object.fromEntries([...entries].map(([module, names]) => [module, [...names.keys()]]));
}

function readDeclarations() {
  const names = readdirSync(join(root, "types")).filter((name) => name.endsWith(".d.ts"));
  const paths = [join(root, "index.d.ts"), ...names.map((name) => join(root, "types", name))];
  const program = ts.createProgram(paths, {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts"],
    types: [],
    noEmit: true,
  });
  const checker = program.getTypeChecker();
  const files = new Map(
    paths.map((path) => {
      const name = path.match(/([\w-]+)\.d\.ts$/)[1];
      const source = program.getSourceFile(path);
      return [name, { name, source, module: checker.getSymbolAtLocation(source) }];
    }),
  );
  return { checker, files };
}

/** Returns the exports of each module of the package, as symbols of their declarations. */
function readEntries(checker, files) {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const modules = Object.keys(exports).filter((path) => typeof exports[path] === "object");
  return new Map(
    modules.map((path) => {
      const file = files.get(path === "." ? "index" : path.slice(2));
      const symbols = checker.getExportsOfModule(file.module);
      const named = symbols.map((symbol) => [symbol.name, declared(symbol, checker)]);
      return [path.replace(".", "syncguard"), new Map(named)];
    }),
  );
}

const declared = (symbol, checker) =>
  symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;

/**
 * Returns where each export is documented, and which modules export it. The module `syncguard` declares
 * some names of `syncguard/common` again: they have one entry.
 */
function indexExports(checker, files, entries) {
  const index = new Map();
  for (const file of files.values()) {
    if (file.name === "index" || file.name === "common") continue;
    for (const symbol of checker.getExportsOfModule(file.module)) {
      const modules = [...entries]
        .filter(([module, names]) => {
          const found = names.get(symbol.name);
          return (
            found === symbol || (module === "syncguard" && found && isAgain(found, symbol, entries))
          );
        })
        .map(([module]) => module);
      if (modules.length === 0) continue;
      index.set(symbol, { name: symbol.name, file: file.name, modules });
    }
  }
  return index;
}

const isAgain = (found, symbol, entries) =>
  found.declarations.every((node) => node.getSourceFile().fileName.endsWith("/index.d.ts")) &&
  entries.get("syncguard/common").get(symbol.name) === symbol;

function pageOfFile({ name, source, module }, checker, index) {
  const intro = /^(?:\/\/\/.*\n)*((?:\/\/ .*\n)+)/.exec(source.text)[1];
  const about = intro
    .replaceAll(/^\/\/ /gm, "")
    .replaceAll("\n", " ")
    .trim();
  const [, moduleName, sentence = about] = /^(syncguard\/[\w-]+): (.*)$/.exec(about) ?? [];
  const symbols = checker.getExportsOfModule(module).filter((symbol) => index.has(symbol));
  symbols.sort((a, b) => rank(a) - rank(b) || position(a) - position(b));
  return [
    `# ${moduleName ? `\`${moduleName}\`` : TITLES[name]}`,
    capitalized(sentence),
    importOf(symbols, index),
    ...symbols.flatMap((symbol) => sectionOf(symbol, checker, index)),
  ].join("\n\n");
}

/** Names of functions, such as `lock()`, stay as they are. */
const capitalized = (text) => (/^\w+\(/.test(text) ? text : text[0].toUpperCase() + text.slice(1));
const position = (symbol) => symbol.declarations[0].pos;

/** The order of kinds on a page: functions that people call come before the types that describe them. */
function rank({ flags }) {
  if (flags & (ts.SymbolFlags.Function | ts.SymbolFlags.Class)) return 0;
  if (flags & ts.SymbolFlags.Variable) return 1;
  return 2;
}

function importOf(symbols, index) {
  const values = symbols.filter((symbol) => symbol.flags & ts.SymbolFlags.Value);
  const modules = [...new Set(symbols.flatMap((symbol) => index.get(symbol).modules))];
  const where = modules.map((module) => `\`${module}\``).join(" and ");
  if (values.length === 0) return `The types are exported by ${where}.`;
  const names = values.map(({ name }) => name);
  const list = names.join(", ");
  const inline = list.length < 44 ? ` ${list} ` : `\n  ${names.join(",\n  ")},\n`;
  const best = modules.find((module) => module !== "syncguard/common") ?? modules[0];
  const module = values.every((symbol) => index.get(symbol).modules.includes(best))
    ? best
    : modules.find((one) => values.every((symbol) => index.get(symbol).modules.includes(one)));
  return `\`\`\`js\nimport {${inline}} from "${module}";\n\`\`\`\n\nExported by ${where}.`;
}

function sectionOf(symbol, checker, index) {
  const nodes = symbol.declarations.map((node) =>
    ts.isVariableDeclaration(node) ? node.parent.parent : node,
  );
  const parts = [`## ${symbol.name}`];
  const [deprecated] = nodes.flatMap((node) => tagsOf(node, "deprecated"));
  if (deprecated !== undefined) parts.push(`**Deprecated.** ${prose(deprecated)}`);
  for (const node of nodes) {
    parts.push(...descriptionOf(node));
    if (ts.isFunctionDeclaration(node)) parts.push(code(print(node)));
    else parts.push(...shapeOf(node, checker, index));
    parts.push(...examplesOf(node));
  }
  return parts;
}

/** Describes an interface, a class, a type or a constant. */
function shapeOf(node, checker, index) {
  if (ts.isInterfaceDeclaration(node) || ts.isClassDeclaration(node)) {
    const heritage = (node.heritageClauses ?? []).flatMap(({ types }) => [...types]);
    const parents = heritage.map((type) => linked(type.getText(), index));
    const also = parents.length ? [`Also has the members of ${parents.join(" and ")}.`] : [];
    const isOptions = /(?:Options|Config)$/.test(node.name.text);
    return [
      ...also,
      ...tableOf(node.members),
      ...memberExamples(node.members),
      ...(isOptions ? inheritedOf(heritage, checker, index) : []),
    ];
  }
  if (!ts.isTypeAliasDeclaration(node)) return [code(print(node))];
  const { type } = node;
  if (ts.isUnionTypeNode(type) && type.types.some((one) => commentBefore(one))) {
    const rows = type.types.map(
      (one) => `| ${cell(code1(one))} | ${cell(prose(commentBefore(one)))} |`,
    );
    return [["| value | |", "|---|---|", ...rows].join("\n")];
  }
  const literals = [];
  const collect = (part) => {
    if (ts.isTypeLiteralNode(part)) literals.push(part);
    else ts.forEachChild(part, collect);
  };
  collect(type);
  const members = literals.flatMap((literal) => [...literal.members]);
  const documented = members.some((member) => commentOf(member));
  return [code(print(node)), ...(documented ? tableOf(members) : [])];
}

/** Repeats the options that an interface inherits, so that all of them are on one page. */
function inheritedOf(heritage, checker, index) {
  return heritage.flatMap((type) => {
    const symbol = checker.getTypeAtLocation(type).symbol;
    const node = symbol?.declarations?.find(ts.isInterfaceDeclaration);
    // Error, Omit and the like are not ours.
    if (!node || !index.has(symbol)) return [];
    const table = tableOf(node.members);
    const intro = `From ${linked(symbol.name, index)}:`;
    const further = (node.heritageClauses ?? []).flatMap(({ types }) => [...types]);
    return [...(table.length ? [intro, ...table] : []), ...inheritedOf(further, checker, index)];
  });
}

/** Returns a comment in front of one member of a union, where TypeScript attaches no JSDoc. */
function commentBefore(node) {
  const text = node.getSourceFile().text;
  const [comment] = (ts.getLeadingCommentRanges(text, node.pos) ?? []).slice(-1);
  if (comment) return plain(text.slice(comment.pos, comment.end));
  // The comment stands before the `|`.
  const bar = text.lastIndexOf("|", node.getStart());
  const before = text.slice(0, bar).match(/\/\*\*((?:(?!\*\/)[^])*)\*\/\s*$/);
  return before ? plain(before[0]) : "";
}

const plain = (comment) =>
  comment
    .replace(/^\/\*\*?|\*\/$/g, "")
    .replace(/^\s*\* ?/gm, "")
    .trim();

function tableOf(members) {
  const named = [...members].filter((member) => member.name || ts.isConstructorDeclaration(member));
  const shown = named.filter((member) => !isPrivate(member));
  if (shown.length === 0) return [];
  const rows = shown.map((member) => {
    const { text, fallback } = splitDefault(commentOf(member));
    return { name: nameOf(member), type: typeOf(member), fallback, text };
  });
  const hasDefaults = rows.some(({ fallback }) => fallback);
  const head = hasDefaults
    ? ["| name | type | default | |", "|---|---|---|---|"]
    : ["| name | type | |", "|---|---|---|"];
  const body = rows.map(({ name, type, fallback, text }) => {
    const cells = [name, cell(`\`${type}\``), ...(hasDefaults ? [cell(prose(fallback))] : [])];
    return `| ${[...cells, cell(prose(text))].join(" | ")} |`;
  });
  return [[...head, ...body].join("\n")];
}

const isPrivate = (member) =>
  ts.canHaveModifiers(member) &&
  ts.getModifiers(member)?.some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword);

function nameOf(member) {
  if (ts.isConstructorDeclaration(member)) return "`constructor`";
  const optional = member.questionToken && !ts.isMethodDeclaration(member) ? "?" : "";
  return `\`${member.name.getText()}${optional}\``;
}

function typeOf(member) {
  if (member.type && !member.parameters) {
    return squeezed(member.type.getText().replace(/ \| undefined$/, ""));
  }
  const parameters = member.parameters.map((parameter) => parameter.getText()).join(", ");
  return squeezed(`(${parameters})${member.type ? ` => ${member.type.getText()}` : ""}`);
}

const squeezed = (text) =>
  text
    .replace(/\/\*[^]*?\*\//g, "")
    .replace(/\s+/g, " ")
    .replace(/^\| /, "")
    .trim();

/** Separates the sentences that name the default. */
function splitDefault(comment) {
  const sentences = comment.split(/(?<=[.)])\s+(?=[A-Z`"])/);
  const isDefault = (sentence) => /^Defaults?:? /.test(sentence);
  const fallback = sentences.filter(isDefault).map((sentence) => {
    const value = sentence.replace(/^Defaults?:? /, "").replace(/\.$/, "");
    return /^(true|false|[\d,.]+|"[^"]*")$/.test(value) ? `\`${value}\`` : value;
  });
  return {
    text: sentences.filter((sentence) => !isDefault(sentence)).join(" "),
    fallback: fallback.join(" "),
  };
}

const jsDocOf = (node) => ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc);
const commentOf = (node) =>
  jsDocOf(node)
    .map(({ comment }) => ts.getTextOfJSDocComment(comment) ?? "")
    .join("\n\n");
const tagsOf = (node, name) =>
  ts
    .getJSDocTags(node)
    .filter((tag) => tag.tagName.text === name)
    .map(({ comment }) => ts.getTextOfJSDocComment(comment) ?? "");
const descriptionOf = (node) => (commentOf(node) ? [prose(commentOf(node))] : []);

function examplesOf(node) {
  return tagsOf(node, "example").map((example) => `\`\`\`ts example\n${example.trim()}\n\`\`\``);
}

function memberExamples(members) {
  return [...members].flatMap((member) => {
    const examples = examplesOf(member);
    return examples.length ? [`For example, ${nameOf(member)}:`, ...examples] : [];
  });
}

/** Returns the declaration without its comments, formatted as in the source. */
function print(node) {
  return node
    .getText()
    .replace(/^export (?:declare )?/, "")
    .replace(/^\s*\/\*\*[^]*?\*\/\n/gm, "");
}

const code = (text) => `\`\`\`ts signature\n${text}\n\`\`\``;
const code1 = (node) => `\`${node.getText()}\``;
const cell = (text) => text.replaceAll("|", "\\|").replace(/\s*\n\s*/g, " ");

/** Escapes `<` and `{{` outside of code in a comment, which Vue would interpret. */
function prose(text) {
  return text
    .split(/(`[^`]*`)/)
    .map((part) =>
      part.startsWith("`") ? part : part.replaceAll("<", "&lt;").replaceAll("{{", "{ {"),
    )
    .join("");
}

/** Names a type, with a link if it is one of ours. */
function linked(text, index) {
  const names = text.match(/\b[A-Z]\w+/g) ?? [];
  const targets = names.map((name) => [...index.values()].find((entry) => entry.name === name));
  const target = targets.find(Boolean);
  const label = `\`${squeezed(text)}\``;
  return target ? `[${label}](/reference/${target.file}#${slugOf(target.name)})` : label;
}

function listOf(index) {
  const rows = [...index]
    .map(([symbol, entry]) => ({ ...entry, kind: kindOf(symbol) }))
    .sort((a, b) => a.name.localeCompare(b.name, "en") || a.file.localeCompare(b.file, "en"))
    .map(
      ({ name, file, modules, kind }) =>
        `| [\`${name}\`](/reference/${file}#${slugOf(name)}) | ${kind} | ${modules.map((module) => `\`${module}\``).join(", ")} |`,
    );
  return [
    "# All exports",
    "Every name that the package exports, and the modules that export it. Names that appear in `syncguard` and in `syncguard/common` are the same.",
    ["| name | | modules |", "|---|---|---|", ...rows].join("\n"),
  ].join("\n\n");
}

function kindOf({ flags }) {
  if (flags & ts.SymbolFlags.Class) return "class";
  if (flags & ts.SymbolFlags.Function) return "function";
  if (flags & ts.SymbolFlags.Variable) return "constant";
  return "type";
}
