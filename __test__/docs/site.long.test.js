// The built site in a browser: its links and anchors, navigation, search, dark mode, a phone, and that it
// asks no other host for anything.

import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { which } from "../../scripts/lib/run.mjs";
import { program } from "../../scripts/servers/programs.mjs";
import { SECTIONS } from "../../scripts/docs/navigation.mjs";
import { ROOT } from "./blocks.js";
import { serve } from "./serve.js";

const OUT = join(ROOT, "target", "docs", "site");
const CHROME = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome";
const browserPath = () =>
  process.platform === "darwin" ? CHROME : (which("chromium") ?? program("chromium"));

let site;
let browser;

beforeAll(async () => {
  await promisify(execFile)(process.execPath, ["scripts/docs.mjs", "--build"], {
    cwd: ROOT,
    maxBuffer: 1e8,
  });
  site = await serve(OUT);
  browser = await chromium.launch({
    executablePath: browserPath(),
    args: [
      ...["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
      "--disable-background-networking",
    ],
  });
}, 300_000);

afterAll(async () => {
  await browser?.close();
  await site?.close();
});

const htmlFiles = () =>
  readdirSync(OUT, { recursive: true })
    .map((name) => name.replaceAll("\\", "/"))
    .filter((name) => name.endsWith(".html"));

const pathOf = (file) => `/${file.replace(/(^|\/)index\.html$|\.html$/, "$1")}`;

test("links and anchors of the built pages", () => {
  const anchors = new Map();
  const links = [];
  for (const file of htmlFiles()) {
    const html = readFileSync(join(OUT, file), "utf8");
    const ids = [...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => decode(id));
    anchors.set(pathOf(file), new Set(ids));
    for (const [, href] of html.matchAll(/<a\b[^>]* href="([^"]+)"/g)) {
      if (!/^[a-z]+:/.test(href)) links.push([pathOf(file), decode(href)]);
    }
  }
  expect(anchors.size).toBeGreaterThan(120);
  expect(links.length).toBeGreaterThan(5_000);
  const files = new Set(readdirSync(OUT));
  const broken = new Set();
  for (const [from, href] of links) {
    const { pathname, hash } = new URL(href, `http://site${from}`);
    const known = anchors.get(pathname);
    const id = decodeURIComponent(hash.slice(1));
    if (!known ? !files.has(pathname.slice(1)) : id && !known.has(id)) {
      broken.add(`${from}: ${href}`);
    }
  }
  expect([...broken]).toEqual([]);
});

const decode = (text) => text.replaceAll("&amp;", "&").replaceAll("&quot;", '"');

test("every page can be reached from the front page", () => {
  const files = new Map(htmlFiles().map((file) => [pathOf(file), file]));
  const reached = new Set(["/"]);
  for (const path of reached) {
    const html = readFileSync(join(OUT, files.get(path)), "utf8");
    for (const [, href] of html.matchAll(/<a\b[^>]* href="(\/[^"#]*)/g)) {
      if (files.has(href)) reached.add(href);
    }
  }
  const missing = [...files.keys()].filter((path) => path !== "/404" && !reached.has(path));
  expect(missing).toEqual([]);
});

test("llms.txt lists all pages, and llms-full.txt has their text", () => {
  const list = readFileSync(join(OUT, "llms.txt"), "utf8");
  const full = readFileSync(join(OUT, "llms-full.txt"), "utf8");
  const pages = SECTIONS.flatMap(({ pages }) => pages);
  for (const [page, label] of pages) expect(list).toContain(`- [${label}](/${page})`);
  expect(full).toContain("How long a lock lasts");
  expect(full).toContain("createRedisBackend");
  expect(full.length).toBeGreaterThan(200_000);
});

/** Opens a page, runs `act`, and returns what went wrong meanwhile: errors, requests to other hosts. */
async function visit(path, act = async () => {}, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => {
    const isOurs = request.url().startsWith(site.url) || request.url().startsWith("data:");
    if (!isOurs) problems.push(`asks ${request.url()}`);
  });
  try {
    await page.goto(site.url + path, { waitUntil: "networkidle" });
    await act(page);
    return problems;
  } finally {
    await context.close();
  }
}

/** One page of each kind. */
const KINDS = [
  ...["/", "/start/why", "/guides/fencing", "/guides/choosing-a-backend", "/redis", "/cli"],
  ...["/reference/", "/reference/api", "/reference/lock", "/reference/redis", "/deploy/redis"],
  ...["/guides/sharing", "/integrations/lambda", "/examples/", "/about/decisions"],
  ...["/reference/events-and-metrics", "/reference/exports", "/reference/error-codes"],
  ...["/migrate/redlock", "/examples/cron", "/benchmarks", "/about/benchmarks/redis", "/proof"],
  ...["/about/comparison", "/about/contributing", "/conformance", "/integrations/nestjs"],
];

/** The address changes before the page does, so poll what this returns. */
const heading = (page) => () => page.locator("h1").first().textContent();

describe("in a browser", () => {
  test("navigation", async () => {
    const problems = await visit("/", async (page) => {
      await page.getByRole("link", { name: "Your first lock" }).first().click();
      await page.waitForURL("**/start/first-lock");
      await expect.poll(heading(page)).toContain("Your first lock");
      await page.locator(".VPSidebar").getByRole("link", { name: "The same on Redis" }).click();
      await page.waitForURL("**/start/redis");
      await page.locator(".VPNavBar").getByRole("link", { name: "Reference" }).click();
      await page.waitForURL("**/reference/api");
      await expect.poll(heading(page)).toContain("The API on one page");
    });
    expect(problems).toEqual([]);
  });

  test("search finds what people look for", async () => {
    const searches = [
      ["which backend", "/guides/choosing-a-backend"],
      ["choose a backend", "/guides/choosing-a-backend"],
      ["semaphore", "/guides/sharing"],
      ["redis settings", "/deploy/redis"],
      ["redlock", "/migrate/redlock"],
      ["verrou", "/migrate/verrou"],
      ["ttlMs", "/guides/how-long-a-lock-lasts"],
      ["lambda", "/integrations/lambda"],
      ["docker", "/deploy/containers"],
      ["kubernetes", "/deploy/kubernetes"],
      ["nextjs", "/integrations/nextjs"],
      ["blocked event loop", "/guides/how-long-a-lock-lasts"],
      ["stuck lock", "/guides/troubleshooting"],
      ["fence", "/guides/fencing"],
    ];
    const problems = await visit("/", async (page) => {
      await page.locator("#local-search button").click();
      const results = page.locator(".VPLocalSearchBox .result");
      const found = () => results.evaluateAll((links) => links.slice(0, 5).map(({ href }) => href));
      for (const [words, expected] of searches) {
        await page.locator("#localsearch-input").fill(words);
        // The first results may still be those of the search before.
        await expect
          .poll(async () => (await found()).join("\n"), { message: words, timeout: 10_000 })
          .toContain(expected);
      }
      await page.locator('.VPLocalSearchBox .result[href*="/guides/fencing"]').first().click();
      await page.waitForURL("**/guides/fencing*");
    });
    expect(problems).toEqual([]);
  }, 120_000);

  test("a page that does not exist leads to the front page", async () => {
    await visit("/no-such-page", async (page) => {
      await expect.poll(heading(page)).toContain("There is no such page");
      await page.getByRole("link", { name: "go to home" }).click();
      await page.locator(".VPHero").waitFor();
    });
  });

  test("the front page plays the recording", async () => {
    const problems = await visit("/", async (page) => {
      const recording = page.locator(".VPHero img.image-src");
      expect(await recording.evaluate((image) => image.naturalWidth)).toBeGreaterThan(500);
    });
    expect(problems).toEqual([]);
  });

  test("code before and after a migration is side by side, if there is room", async () => {
    const isSideBySide = (page) =>
      page
        .locator(".before-after")
        .first()
        .evaluate(({ children: [before, after] }) => {
          const [one, other] = [before.getBoundingClientRect(), after.getBoundingClientRect()];
          return one.top === other.top && one.right < other.left;
        });
    for (const [width, expected] of [
      [1280, true],
      [390, false],
    ]) {
      await visit(
        "/migrate/redlock",
        async (page) => expect(await isSideBySide(page)).toBe(expected),
        { viewport: { width, height: 900 } },
      );
    }
  });

  test("dark mode, of the page and of its pictures", async () => {
    const problems = await visit("/guides/fencing", async (page) => {
      const colors = () =>
        page.evaluate(() => [
          getComputedStyle(document.body).backgroundColor,
          getComputedStyle(document.querySelector(".picture svg text")).fill,
        ]);
      const light = await colors();
      await page.locator(".VPNavBarAppearance button").click();
      await page.locator("html.dark").waitFor();
      // The colours change gradually.
      await expect.poll(colors).not.toEqual(light);
      const [background, ink] = await colors();
      expect(brightness(background)).toBeLessThan(60);
      expect(brightness(ink)).toBeGreaterThan(120);
    });
    expect(problems).toEqual([]);
  });

  test.each(KINDS)("%s on a phone and on a desktop", async (path) => {
    for (const viewport of [
      { width: 390, height: 844 },
      { width: 1280, height: 900 },
    ]) {
      const problems = await visit(
        path,
        async (page) => {
          const width = await page.evaluate(() => document.documentElement.scrollWidth);
          expect(width).toBeLessThanOrEqual(viewport.width);
          expect(await page.locator("h1").first().isVisible()).toBe(true);
        },
        { viewport },
      );
      expect(problems).toEqual([]);
    }
  });
});

const brightness = (color) =>
  Math.max(
    ...color
      .match(/\d+/g)
      .slice(0, 3)
      .map((part) => Number(part)),
  );
