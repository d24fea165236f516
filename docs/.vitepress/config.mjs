import { copyFileSync, mkdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { defineConfig } from "vitepress";
import { slugOf } from "../../scripts/docs/files.mjs";
import { generate, SOURCES } from "../../scripts/docs/generate.mjs";
import { writeTexts } from "../../scripts/docs/llms.mjs";
import { DOWNLOADS, forSite } from "../../scripts/docs/markdown.mjs";
import { SECTIONS } from "../../scripts/docs/navigation.mjs";
import { describeProject } from "../../scripts/docs/repository.mjs";
import { root } from "../../scripts/lib/run.mjs";

const title = "SyncGuard";
const description =
  "Distributed locks with fencing tokens for Node.js: on Redis, PostgreSQL, Firestore, SQLite and memory.";

/** The recording of the demo on the front page. */
const RECORDING = "pictures/demo.svg";

/** Where the text of a page comes from, as a path in the repository. */
const sourceOf = ({ frontmatter, filePath }) => frontmatter.source ?? `docs/${filePath}`;

/** Generates the pages again when a file that they are made from changes. */
const regenerate = {
  name: "syncguard-docs",
  configureServer({ watcher }) {
    const sources = SOURCES.map((name) => join(root, name));
    watcher.add(sources);
    watcher.on("change", (file) => {
      if (sources.some((source) => file.startsWith(source))) generate();
    });
  },
};

/**
 * Returns the configuration of the site of a project.
 * @param {import("../../scripts/docs/repository.mjs").Project} project
 */
export const configOf = (project) => ({
  lang: "en",
  title,
  description,
  base: project.base,
  cleanUrls: true,
  lastUpdated: false,
  outDir: "../target/docs/site",
  cacheDir: "../target/docs/cache",
  rewrites: { "generated/:path*": ":path*" },
  ...(project.origin && { sitemap: { hostname: `${project.origin}${project.base}` } }),
  head: [
    ["link", { rel: "icon", type: "image/svg+xml", href: `${project.base}logo.svg` }],
    ["meta", { name: "theme-color", content: "#1f6feb" }],
  ],
  transformHead({ page, pageData }) {
    if (!project.origin || pageData.isNotFound) return [];
    const path = page.replace(/^generated\//, "").replace(/(^|\/)index\.md$|\.md$/, "$1");
    return [["link", { rel: "canonical", href: `${project.origin}${project.base}${path}` }]];
  },
  transformPageData({ relativePath, frontmatter }) {
    // Code before and after a migration needs the whole width.
    if (relativePath.startsWith("migrate/")) frontmatter.aside = false;
  },
  async buildEnd({ outDir }) {
    writeTexts(outDir, { title, description, project });
    for (const file of DOWNLOADS) copyFileSync(join(root, file), join(outDir, basename(file)));
    // The front page names it in its settings, where it is not found as a picture of the page.
    const recording = join(outDir, RECORDING);
    mkdirSync(dirname(recording), { recursive: true });
    copyFileSync(join(root, "docs", RECORDING), recording);
  },
  markdown: {
    anchor: { slugify: slugOf },
    toc: { slugify: slugOf },
    headers: { slugify: slugOf },
    // Languages that the highlighter does not know are shown as they are.
    languageAlias: { dockerfile: "docker", conf: "ini" },
    config: (md) => forSite(md, project),
  },
  vite: {
    plugins: [regenerate],
    build: { chunkSizeWarningLimit: 2_000 },
    // Pictures and results of the benchmarks are outside of docs/.
    server: { fs: { allow: [root] } },
  },
  themeConfig: {
    logo: "/logo.svg",
    nav: [
      { text: "Start", link: "/start/why", activeMatch: "^/start/" },
      { text: "Guides", link: "/guides/choosing-a-backend", activeMatch: "^/guides/" },
      { text: "Deploy", link: "/deploy/redis", activeMatch: "^/deploy/" },
      { text: "Integrate", link: "/integrations/nestjs", activeMatch: "^/integrations/" },
      { text: "Migrate", link: "/migrate/redlock", activeMatch: "^/migrate/" },
      { text: "Reference", link: "/reference/api", activeMatch: "^/reference/" },
    ],
    sidebar: SECTIONS.map(({ text, open = false, pages }) => ({
      text,
      collapsed: !open,
      items: pages.map(([page, label]) => ({ text: label, link: `/${page}` })),
    })),
    outline: { level: [2, 3], label: "On this page" },
    search: {
      provider: "local",
      options: {
        detailedView: true,
        miniSearch: {
          options: {
            // "Next.js" is also found as "nextjs".
            tokenize: (text) => [
              ...text.split(/[\n\r\p{Z}\p{P}]+/u),
              ...(text.match(/[\p{L}\p{N}]+(?:[.-][\p{L}\p{N}]+)+/gu) ?? []).map((word) =>
                word.replace(/[.-]/g, ""),
              ),
            ],
          },
          searchOptions: {
            // People look for a task before they look for a decision or a requirement.
            boostDocument: (id) => {
              if (/\/(start|guides)\//.test(id)) return 3;
              if (/\/(deploy|integrations)\//.test(id)) return 2;
              if (/\/migrate\//.test(id)) return 0.7;
              return /\/(adr|conformance|about|benchmarks)/.test(id) ? 0.3 : 1;
            },
          },
        },
      },
    },
    ...(project.web && {
      editLink: {
        text: "Edit this page",
        pattern: (page) => project.editUrl(sourceOf(page)),
      },
      socialLinks: [{ icon: "github", link: project.web, ariaLabel: "The repository" }],
    }),
    notFound: {
      title: "There is no such page",
      quote: "It may have moved. Search for it, or start from the list of questions.",
      linkText: "To the front page",
    },
    docFooter: { prev: "Previous", next: "Next" },
    footer: { message: "MIT License" },
  },
});

export default defineConfig(configOf(describeProject()));
