// The commands of package.json install what they need, so they must start without it.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const COMMANDS = Object.entries(scripts)
  .filter(([, command]) => command.startsWith("node "))
  .map(([name, command]) => [name, join(root, command.split(" ")[1])]);

/** The packages that a module and the modules it imports load before their first line runs. */
function packagesOf(file, seen = new Set()) {
  if (seen.has(file)) return [];
  seen.add(file);
  const source = readFileSync(file, "utf8");
  const imports = [...source.matchAll(/^(?:import|export)\b(?:[^"';=]*\bfrom)?\s*"([^"]+)";$/gm)];
  return imports.flatMap(([, name]) => {
    if (name.startsWith("node:")) return [];
    if (name.startsWith(".")) return packagesOf(join(dirname(file), name), seen);
    return [name];
  });
}

describe("a fresh clone", () => {
  test("has the commands of the README", () => {
    expect(COMMANDS.map(([name]) => name)).toEqual(expect.arrayContaining(["start", "test"]));
  });

  test.each(COMMANDS)("npm run %s starts without node_modules", (_, file) => {
    expect(packagesOf(file)).toEqual([]);
  });

  test("an import of a package is found", () => {
    const file = join(root, "scripts/lib/vitest-sequencer.mjs");
    expect(packagesOf(file)).toEqual(["vitest/node"]);
  });
});
