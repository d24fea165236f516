// Adapts Markdown to the site: links between files of the repository become links between pages, and
// pictures become part of the page, so that they follow its colour scheme.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { root } from "../lib/run.mjs";
import { pageOf, readText, resolveLink } from "./files.mjs";

/** Files that are no pages, and that readers download. */
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
  const image = md.renderer.rules.image;
  md.renderer.rules.image = (tokens, index, options, env, self) => {
    const file = resolveLink(sourceOf(env), tokens[index].attrGet("src"));
    if (!file.endsWith(".svg") || !existsSync(join(root, file))) {
      return image(tokens, index, options, env, self);
    }
    return picture(file, tokens[index].content);
  };
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

/** Returns an SVG as HTML. The site's style sheet has its colours. */
function picture(file, text) {
  const svg = readText(file)
    .replace(/<style>[^]*?<\/style>\s*/, "")
    .replace(/<title>[^]*?<\/title>\s*/, "")
    .replace(/<svg\b/, `<svg role="img" aria-label="${escapeAttribute(text)}"`)
    // Markdown ends a block of HTML at an empty line.
    .replace(/\n\s*\n/g, "\n");
  return `<span class="picture" v-pre>${svg}</span>`;
}

const escapeAttribute = (text) =>
  text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`).replace(/\s+/g, " ");
