// Adapts Markdown to the site: links between files of the repository become links between pages,
// pictures become part of the page, so that they follow its colour scheme, and code before and after a
// change is shown side by side.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { root } from "../lib/run.mjs";
import { pageOf, readText, resolveLink } from "./files.mjs";

/** Files that are not pages but downloads. */
export const DOWNLOADS = ["docs/grafana-dashboard.json"];

/**
 * A plugin of markdown-it.
 * @param {import("markdown-it").default} md
 * @param {import("./repository.mjs").Project} project
 */
export function forSite(md, project) {
  md.core.ruler.push("syncguard-links", ({ tokens, env }) => {
    const from = sourceOf(env);
    for (const { children } of tokens) {
      for (const [index, token] of (children ?? []).entries()) {
        if (token.type === "link_open") adaptLink(token, children, index, from, project);
      }
    }
  });
  md.core.ruler.push("syncguard-named-files", ({ tokens, Token }) => {
    for (const token of tokens) if (token.children) linkNamedFiles(token, Token);
  });
  md.core.ruler.push("syncguard-before-after", ({ tokens, Token }) => {
    pairBeforeAndAfter(tokens, Token);
  });
  const image = md.renderer.rules.image;
  md.renderer.rules.image = (tokens, index, options, env, self) => {
    const file = resolveLink(sourceOf(env), tokens[index].attrGet("src"));
    if (!file.endsWith(".svg") || !existsSync(join(root, file))) {
      return image(tokens, index, options, env, self);
    }
    const svg = readText(file);
    // A picture without variables, such as a recording, has the same colours everywhere.
    if (!svg.includes("var(--")) return image(tokens, index, options, env, self);
    return inlinePicture(svg, tokens[index].content);
  };
}

/**
 * Makes links of the names of results. They have pages on the site, but are not in the npm package, so
 * the documents only name them.
 */
function linkNamedFiles(parent, Token) {
  let depth = 0;
  parent.children = parent.children.flatMap((token) => {
    if (token.type === "link_open") depth++;
    if (token.type === "link_close") depth--;
    const isResult =
      token.type === "code_inline" && /^bench\/results\/[\w-]+\.md$/.test(token.content);
    if (!isResult || depth > 0) return [token];
    const open = new Token("link_open", "a", 1);
    open.attrSet("href", `/${pageOf(token.content)}`);
    return [open, token, new Token("link_close", "a", -1)];
  });
}

/** Wraps a block of code that begins with `// before` and those that follow with `// after`. */
function pairBeforeAndAfter(tokens, Token) {
  const says = (token, word) => token?.type === "fence" && token.content.startsWith(`// ${word}`);
  const html = (content) => Object.assign(new Token("html_block", "", 0), { content });
  for (let first = tokens.length - 1; first >= 0; first--) {
    if (!says(tokens[first], "before") || !says(tokens[first + 1], "after")) continue;
    let end = first + 1;
    while (says(tokens[end], "after")) end++;
    tokens.splice(end, 0, html("</div>\n"));
    tokens.splice(first, 0, html(`<div class="before-after">\n`));
  }
}

/** Returns the file of the repository that the text was written in: links are relative to it. */
function sourceOf({ relativePath, frontmatter }) {
  return frontmatter?.source ?? `docs/${relativePath}`;
}

function adaptLink(token, siblings, index, from, project) {
  const href = token.attrGet("href");
  if (/^(?:[a-z]+:|#|\/)/.test(href)) return;
  const [path, anchor] = href.split("#");
  const file = resolveLink(from, decodeURI(path));
  const page = pageOf(file);
  if (page !== undefined) {
    token.attrSet("href", `/${page}${anchor ? `#${anchor}` : ""}`);
    return;
  }
  // The site has this file, too.
  if (DOWNLOADS.includes(file)) {
    token.attrSet("href", `${project.base}${file.replace("docs/", "")}`);
    token.attrSet("download", "");
    token.attrSet("target", "_self");
    return;
  }
  const url = project.sourceUrl(file);
  if (url) return token.attrSet("href", url);
  // A file that the site does not show. As long as the repository is not known, only its name remains.
  token.tag = "span";
  token.attrs = [];
  const close = siblings.find((other, i) => i > index && other.type === "link_close");
  close.tag = "span";
}

/**
 * Returns an SVG as HTML. The site's style sheet has its colours.
 * @param {"span" | "div"} tag a span within a paragraph, a div in a place of its own
 */
export function inlinePicture(svg, label, tag = "span") {
  const [, width] = /<svg\b[^>]* width="(\d+)"/.exec(svg);
  // On a phone it shrinks as long as its text can be read. Then it scrolls.
  const style = `min-width:${Math.round(width * 0.74)}px;max-width:${Math.round(width * 1.15)}px`;
  const html = svg
    .replace(/<style>[^]*?<\/style>\s*/, "")
    .replace(/<title>[^]*?<\/title>\s*/, "")
    .replace(/<svg\b/, `<svg role="img" style="${style}" aria-label="${escapeAttribute(label)}"`)
    // Markdown ends a block of HTML at an empty line.
    .replace(/\n\s*\n/g, "\n")
    .trimEnd();
  return `<${tag} class="picture" v-pre>${html}</${tag}>`;
}

const escapeAttribute = (text) =>
  text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`).replace(/\s+/g, " ");
