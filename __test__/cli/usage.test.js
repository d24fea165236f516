// Wrong usage, help, and whether the documents list the same options as the parser.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { withoutCredentials } from "../../js/cli/backend.js";
import { readDuration, showDuration } from "../../js/cli/duration.js";
import { helpOf } from "../../js/cli/help.js";
import { COMMANDS, GLOBAL_OPTIONS } from "../../js/cli/options.js";
import { ROOT } from "../fixtures/node.js";
import { cli } from "./cli.js";

const SECRET = "s3cret";

describe("wrong usage is reported in one sentence, with exit code 64", () => {
  test.each([
    [[]],
    [["dance"]],
    [["run"]],
    [["run", SECRET]],
    [["run", SECRET, "--"]],
    [["run", SECRET, "more", "--", "true"], "--key for each"],
    [["run", SECRET, "--key", SECRET, "--", "true"], "--key for each"],
    [["run", "--key", SECRET], "command"],
    [["run", "--key", "--", "true"], "--key"],
    [["run", "--key", SECRET, "--key", "", "--", "true"], "empty"],
    [["run", ...Array.from({ length: 33 }, (_, n) => `--key=${n}`), "--", "true"], "32"],
    [["show", "--key", SECRET], "--key"],
    [["run", "", "--", "true"]],
    [["run", "x".repeat(513), "--", "true"]],
    [["run", SECRET, "--tll", "3s", "--", "true"], "--ttl"],
    [["run", SECRET, "--whatever", "--", "true"]],
    [["run", SECRET, "--raw", "--", "true"], "--raw"],
    [["run", SECRET, "--ttl", "3", "--", "true"], "--ttl"],
    [["run", SECRET, "--ttl", "0s", "--", "true"], "--ttl"],
    [["run", SECRET, "--ttl", "99999h", "--", "true"], "--ttl"],
    [["run", SECRET, "-w", "--", "true"], "-w"],
    [["run", SECRET, "-w", "soon", "--", "true"], "--wait"],
    [["run", SECRET, "-n", "-w", "3s", "--", "true"], "--no-wait"],
    [["run", SECRET, "-E", "256", "--", "true"], "--conflict-exit-code"],
    [["run", SECRET, "-q", "-v", "--", "true"], "--quiet"],
    ...["0", "1001", "1.5", "many"].map((number) => [
      ["run", SECRET, `--concurrency=${number}`, "--", "true"],
      "--concurrency must be an integer from 1 to 1000",
    ]),
    [["run", SECRET, "--shared=yes", "--", "true"], "--shared"],
    [["run", SECRET, "--concurency", "3", "--", "true"], "did you mean --concurrency?"],
    [["run", SECRET, "--no-wait=yes", "--", "true"], "--no-wait"],
    [["run", SECRET, "--url", "memory:", "--", "true"], "memory"],
    [["run", SECRET, "--url", `http://u:${SECRET}@h/`, "--", "true"], "--url"],
    [["run", SECRET, "--url", `redis://u:${SECRET}@h/x/y`, "--", "true"], "--url"],
    [["run", SECRET, "--url", "sqlite:/tmp/x.db", "--prefix", "p", "--", "true"], "--prefix"],
    [["run", SECRET, "--url", "postgres://h/d", "--prefix", "a-b", "--", "true"], "tableName"],
    [["ls", SECRET]],
    [["ls", "--", "true"]],
    [["ls", "--force"], "--force"],
    [["show"]],
    [["show", ""]],
    [["release", SECRET], "--force"],
    [["doctor", "--url", "memory:"], "memory"],
    [["--json"]],
  ])("%j", async (args, named = "") => {
    const { code, stdout, stderr } = await cli(args);
    expect([code, stdout]).toEqual([64, ""]);
    expect(stderr).toMatch(/^syncguard: [^\n]+[.?]\n$/);
    expect(stderr).toContain(named);
    expect(stderr).not.toContain(SECRET);
  });

  test("a wrong environment variable is wrong usage too", async () => {
    const env = { SYNCGUARD_URL: `ftp://u:${SECRET}@h` };
    const { code, stderr } = await cli(["ls"], { env });
    expect(code).toBe(64);
    expect(stderr).toContain("SYNCGUARD_URL");
    expect(stderr).not.toContain(SECRET);
  });
});

test("options may precede the command, and values may follow an equals sign", async () => {
  const url = `--url=sqlite:${join(ROOT, "target", "usage.db")}`;
  const { code, stdout } = await cli([url, "run", "k", "--ttl=10s", "--", "echo", "hi"]);
  expect([code, stdout]).toEqual([0, "hi\n"]);
});

test("the help names every command and every option, and the version is the package's", async () => {
  const { stdout } = await cli(["--help"]);
  for (const { usage } of Object.values(COMMANDS)) expect(stdout).toContain(usage);
  for (const [name, { options, usage }] of Object.entries(COMMANDS)) {
    const help = await cli([name, "--help"]);
    expect([help.code, help.stderr]).toEqual([0, ""]);
    expect(help.stdout).toContain(usage);
    for (const option of Object.keys(options)) expect(help.stdout).toContain(`--${option}`);
  }
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  expect(await cli(["--version"])).toMatchObject({ code: 0, stdout: `${version}\n` });
});

test("the help loads no unnecessary modules", async () => {
  const { stdout, stderr } = await cli(["run", "--help"], {
    env: { NODE_OPTIONS: "", NODE_DEBUG: "esm" },
  });
  expect(stdout).toContain("Usage");
  expect(stderr).toContain("/cli/help.js");
  expect(stderr).not.toMatch(/addon\.js|targets\/|js\/index\.js|\.node\b/);
});

test("docs/cli.md lists all options", () => {
  const markdown = readFileSync(join(ROOT, "docs/cli.md"), "utf8");
  const sections = markdown.split(/^## /m);
  const listed = (title) => {
    const section = sections.find((text) => text.startsWith(`\`${title}`)) ?? "";
    return [...section.matchAll(/^\| (?:`-(\w)`, )?`--([\w-]+)(?: ([A-Z]+))?` \|/gm)].map(
      ([, short, name, value]) => ({ short, name, value }),
    );
  };
  const known = (options) =>
    Object.entries(options).map(([name, { short, value }]) => ({ short, name, value }));
  const everywhere = [...known(GLOBAL_OPTIONS)];
  expect(listed("syncguard`").sort(byName)).toEqual(
    [
      ...known({ url: COMMANDS.ls.options.url, prefix: COMMANDS.ls.options.prefix }),
      ...everywhere,
    ].sort(byName),
  );
  for (const [name, { options }] of Object.entries(COMMANDS)) {
    const own = known(options).filter(({ name }) => !["url", "prefix", "help"].includes(name));
    expect(listed(`syncguard ${name}`).sort(byName), name).toEqual(own.sort(byName));
  }
});

test.each([
  ["README.md", () => readFileSync(join(ROOT, "README.md"), "utf8")],
  ["docs/cli.md", () => readFileSync(join(ROOT, "docs/cli.md"), "utf8")],
  ["examples/cron.mjs", () => readFileSync(join(ROOT, "examples/cron.mjs"), "utf8")],
  ["the help", () => helpOf()],
  ["the help of run", () => helpOf("run")],
])("in %s, every job that several hosts start names their server", (_where, read) => {
  const text = read();
  // A line of a crontab, or a job whose lock is kept because the clocks of hosts differ.
  const isShared = (line) => /^\W*(\S+ ){4}\*  /.test(line) || line.includes("--at-least 60s");
  // A crontab's own lines may set it, for all that follow.
  const named = /--url \w+:\/\/\w|SYNCGUARD_URL=\w+:\/\/\w/;
  let isNamed = false;
  const jobs = text.split("\n").filter((line) => {
    if (line.startsWith("```")) isNamed = false;
    isNamed ||= /^\s*SYNCGUARD_URL=\w+:\/\/\w/.test(line);
    return isShared(line) && !isNamed && !named.test(line);
  });
  expect(text.split("\n").some(isShared)).toBe(true);
  expect(jobs).toEqual([]);
});

const byName = (a, b) => (a.name < b.name ? -1 : 1);

test("durations are read and shown", () => {
  const read = (text) => readDuration(text, "--x");
  expect(["500ms", "30s", "5m", "1h", "1.5s", "0s"].map(read)).toEqual([
    500, 30_000, 300_000, 3_600_000, 1500, 0,
  ]);
  for (const text of ["", "5", "s", "-1s", "1 s", "1d", "1e3s", "600h"]) {
    expect(() => read(text)).toThrow(/^--x /);
  }
  const shown = [0, 999, 1000, 61_000, 3_661_000, 90_000_000].map(showDuration);
  expect(shown).toEqual(["0ms", "999ms", "1s", "1m1s", "1h1m", "1d1h"]);
});

test("a URL is shown without anything that may be a password", () => {
  const shown = {
    "redis://host:6379/0": "redis://host:6379/0",
    "redis://:pw@host/0": "redis://host/0",
    "redis://u:p@w@host": "redis://host",
    "redis://u:p/w@host/1": "redis://host/1",
    "postgres://u:pw@a,b:5433/db?password=pw": "postgres://a,b:5433/db",
    "postgres://h/db?user=a@b&password=pw": "postgres:",
    "postgres://u:p?w@h/db": "postgres:",
    "postgres://u:p#w@h/db": "postgres:",
    "sqlite:/tmp/x.db?durability=normal": "sqlite:/tmp/x.db",
    "sqlite:": "sqlite:",
  };
  for (const [url, place] of Object.entries(shown)) {
    expect(withoutCredentials(url)).toBe(place);
    expect(withoutCredentials(url)).not.toMatch(/p.?w/);
  }
});
