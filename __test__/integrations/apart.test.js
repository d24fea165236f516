// Programs that do not use the integrations load nothing of them.

import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT, node } from "../fixtures/node.js";

const loadedBy = async (entry) => {
  const file = JSON.stringify(join(ROOT, "dist", entry));
  const program = `require(${file}); console.log(Object.keys(require.cache).join("\\n"))`;
  const { stdout } = await node(["--eval", program]);
  return stdout.trim().split("\n");
};

test("syncguard loads neither frameworks nor the code for them", async () => {
  const files = await loadedBy("index.js");
  expect(files.length).toBeGreaterThan(5);
  const others = files.filter((file) => !file.startsWith(join(ROOT, "dist")));
  expect(others).toEqual([]);
  expect(
    files.filter((file) => /nestjs|node-cron|web-locks/.test(file.slice(ROOT.length))),
  ).toEqual([]);
});

test("syncguard/node-cron does not load node-cron", async () => {
  const files = await loadedBy("node-cron.js");
  expect(files.filter((file) => file.includes("node_modules"))).toEqual([]);
});

test("syncguard/nestjs loads Nest, but not Terminus", async () => {
  const files = await loadedBy("nestjs.js");
  expect(files.some((file) => file.includes(join("@nestjs", "common")))).toBe(true);
  expect(files.filter((file) => file.includes("terminus"))).toEqual([]);
});
