// The checks of dependencies in `npm run check` find violations.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { installed, verdict } from "../../scripts/lib/audit.mjs";
import { isAllowed, readRules, violations } from "../../scripts/lib/crates.mjs";

const root = join(import.meta.dirname, "../..");
const read = (name) => readFileSync(join(root, name), "utf8");
const rules = readRules(read("deny.toml"));

describe("crates", () => {
  const REGISTRY = 'source = "registry+https://github.com/rust-lang/crates.io-index"\n';
  const crate = (name, version = "1.0.0", license = "MIT") => ({ name, version, license });
  const judged = (crates, lockFile = REGISTRY) => violations(rules, crates, lockFile);

  test("an allowed crate is not reported", () => {
    expect(judged([crate("a"), crate("b", "2.0.0", "MIT/Apache-2.0")])).toEqual([]);
    for (const { crate: skipped } of rules.bans.skip) {
      const [name, version] = skipped.split("@");
      expect(judged([crate(name, version), crate(name, "99.0.0")])).toEqual([]);
    }
  });

  test.each([
    ["a licence", [crate("a", "1.0.0", "GPL-3.0-only")], 'a 1.0.0 has the licence "GPL-3.0-only"'],
    ["no licence", [crate("a", "1.0.0", "")], 'a 1.0.0 has the licence ""'],
    ["a banned crate", [crate("openssl-sys")], "openssl-sys is banned: TLS is rustls"],
    [
      "two versions",
      [crate("a"), crate("a", "2.0.0")],
      "several versions, and deny.toml gives no reason",
    ],
  ])("%s that is not allowed is reported", (_, crates, text) => {
    expect(judged(crates)).toEqual([expect.stringContaining(text)]);
  });

  test.each(["git+https://example.com/a#b", "registry+https://example.com/index"])(
    "a source that is not allowed is: %s",
    (source) => {
      const found = judged([crate("a")], `${REGISTRY}source = "${source}"\n`);
      expect(found).toEqual([`Cargo.lock has a crate from ${source}`]);
    },
  );

  test.each([
    ["MIT", true],
    ["GPL-3.0 OR MIT", true],
    ["GPL-3.0 AND MIT", false],
    ["MIT AND GPL-3.0 OR ISC", true],
    ["MIT AND (GPL-3.0 OR ISC)", true],
    ["MIT AND (GPL-3.0 OR AGPL-3.0)", false],
    ["(MIT OR GPL-3.0) AND Zlib", true],
    ["GPL-3.0/MIT", true],
    ["MIT WITH an-exception", false],
    ["GPL-3.0 WITH an-exception OR MIT", true],
    ["MIT MIT", false],
    ["(MIT", false],
    ["", false],
  ])("the licence %j: %s", (expression, allowed) => {
    expect(isAllowed(expression, ["MIT", "ISC", "Zlib"])).toBe(allowed);
  });

  test("deny.toml gives a reason for every duplicate version, and lists our targets", () => {
    expect(Object.keys(rules)).toEqual(["graph", "advisories", "licenses", "bans", "sources"]);
    expect(rules.graph.targets).toEqual(JSON.parse(read("package.json")).napi.targets);
    expect(rules.licenses.allow).toContain("MIT");
    for (const { crate, reason } of [...rules.bans.skip, ...rules.bans.deny]) {
      expect(crate).toMatch(/^[\w-]+(@[\d.]+)?$/);
      expect(reason).toMatch(/\w/);
    }
  });
});

describe("packages", () => {
  const none = { metadata: { vulnerabilities: { total: 0 } }, vulnerabilities: {} };

  test("development dependencies do not count as installed, the rest do", () => {
    const packages = { "": {}, "node_modules/a": { dev: true }, "node_modules/b": {} };
    expect(installed({ packages })).toEqual(["node_modules/b"]);
  });

  test("nothing is asked if nothing is installed", () => {
    expect(verdict([], "")).toContain("no advisory");
  });

  test("an advisory fails", () => {
    const report = { ...none, vulnerabilities: { b: { severity: "high" } } };
    expect(() => verdict(["node_modules/b"], JSON.stringify(report))).toThrow("b (high)");
    expect(verdict(["node_modules/b"], JSON.stringify(none))).toContain("without a known advisory");
  });

  test.each(["", "no JSON", '{"message":"audit endpoint returned an error"}'])(
    "a registry that does not tell is said: %j",
    (report) => {
      expect(verdict(["node_modules/b"], report)).toContain("NOT looked up");
    },
  );
});
