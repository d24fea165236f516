// The addresses of the project. The documentation site takes them from package.json. Until `repository` and
// `homepage` are set there, the site has neither edit links nor canonical URLs.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../lib/run.mjs";

const BRANCH = "main";

/**
 * @typedef {object} Project
 * @property {string | undefined} origin of the site, such as `https://docs.example`
 * @property {string} base the path of the site, with a slash at each end
 * @property {string | undefined} web the repository's address for browsers
 * @property {(path: string) => string | undefined} sourceUrl where a browser shows a file
 * @property {(path: string) => string | undefined} editUrl where a browser edits a file
 */

/**
 * Reads `repository` and `homepage` of a package.json.
 * @returns {Project}
 */
export function describeProject({ repository, homepage } = readManifest()) {
  const web = webAddress(typeof repository === "object" ? repository.url : repository);
  const site = siteAddress(homepage, web);
  const separator = web?.startsWith("https://gitlab.") ? "/-/" : "/";
  const url = (verb) => (path) => web && `${web}${separator}${verb}/${BRANCH}/${path}`;
  return {
    origin: site?.origin,
    base: site ? site.pathname.replace(/\/?$/, "/") : "/",
    web,
    sourceUrl: url("blob"),
    editUrl: url("edit"),
  };
}

function readManifest() {
  return JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
}

/** Returns the address for browsers of a repository that is given as npm allows it. */
function webAddress(repository) {
  if (!repository) return undefined;
  const [, host = "github", path] =
    /^(?:(github|gitlab|bitbucket):)?([\w.-]+\/[\w.-]+)$/.exec(repository) ?? [];
  if (path) return `https://${host}.${host === "bitbucket" ? "org" : "com"}/${path}`;
  return repository
    .replace(/^git\+/, "")
    .replace(/^(?:ssh:\/\/)?git@([^:/]+)[:/]/, "https://$1/")
    .replace(/^git:/, "https:")
    .replace(/\.git$/, "");
}

/** `npm init` sets `homepage` to the repository's README, which is not the site. */
function siteAddress(homepage, web) {
  if (!homepage || (web && homepage.startsWith(web))) return undefined;
  return new URL(homepage);
}
