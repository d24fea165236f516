// Several processes whose event loops are blocked at random: whenever one of them learns that it
// holds the lock, no other process does.

import { fork } from "node:child_process";
import { once } from "node:events";
import { afterAll, expect, test } from "vitest";
import { collections } from "../firestore/open.js";
import { tables } from "../postgres/open.js";
import { prefix } from "../redis/open.js";
import { testFolder } from "../sqlite/folder.js";

const PROGRAM = new URL("../fixtures/believer.js", import.meta.url);
const folder = testFolder();
const children = [];
afterAll(() => children.forEach((child) => child.kill("SIGKILL")));

async function believe(name, config) {
  const module = new URL(`../${name}/open.js`, import.meta.url).href;
  const job = { module, config, key: "k", ttlMs: 300, seconds: 8 };
  const reports = await Promise.all(
    [1, 2, 3].map(async () => {
      const child = fork(PROGRAM, [JSON.stringify(job)], {
        stdio: ["ignore", "ignore", "ignore", "ipc"],
      });
      children.push(child);
      const [[report], [code]] = await Promise.all([once(child, "message"), once(child, "exit")]);
      expect(code).toBe(0);
      return report;
    }),
  );
  const beliefs = reports
    .flatMap((report) => report.beliefs)
    .sort((a, b) => (a.fence < b.fence ? -1 : 1));
  return { beliefs, enteredWithout: reports.flatMap((report) => report.enteredWithout) };
}

test.concurrent.each([
  ["redis", () => ({ keyPrefix: prefix() })],
  ["postgres", tables],
  ["sqlite", () => ({ path: folder.file() })],
  ["firestore", collections],
])(
  "%s",
  async (name, config) => {
    const given = config();
    const { beliefs, enteredWithout } = await believe(name, given);
    expect(enteredWithout).toEqual([]);
    expect(beliefs.length).toBeGreaterThan(6);
    const overlaps = beliefs.filter(({ from }, index) => index > 0 && from < beliefs[index - 1].to);
    expect(overlaps).toEqual([]);
    expect(new Set(beliefs.map(({ fence }) => fence)).size).toBe(beliefs.length);
  },
  90_000,
);
