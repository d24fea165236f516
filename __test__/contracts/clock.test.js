// Tests which clock decides, with a client whose clock is wrong by an hour.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { prefix } from "../redis/open.js";
import { tables } from "../postgres/open.js";
import { collections } from "../firestore/open.js";

const HOUR_MS = 3_600_000;
const TTL_MS = 60_000;
// The time that a busy machine may need for a request.
const NOISE_MS = 20_000;

const BACKENDS = [
  ["redis", { keyPrefix: prefix() }, "server"],
  ["postgres", tables(), "server"],
  ["firestore", collections(), "client"],
];

/** Returns what a process sees whose clock is wrong by `offset`. */
async function seenAt(offset, name, options) {
  const module = new URL(`../${name}/open.js`, import.meta.url).href;
  const program = `
    const { open } = await import(${JSON.stringify(module)});
    const backend = await open(${JSON.stringify(options)});
    const held = await backend.acquire({ key: "k", ttlMs: ${TTL_MS} });
    const { acquiredAtMs } = await backend.lookup({ key: "k" });
    const extended = await held.extend(${2 * TTL_MS});
    const { ok } = await held.release();
    const { capabilities } = backend;
    console.log(JSON.stringify({ capabilities, held, acquiredAtMs, extended, ok }));
    await backend.close();
  `;
  const args = ["-f", offset, process.execPath, "--input-type=module", "--eval", program];
  const env = { ...process.env, NODE_OPTIONS: "", FAKETIME_DONT_FAKE_MONOTONIC: "1" };
  const { stdout } = await promisify(execFile)("faketime", args, { env });
  return JSON.parse(stdout);
}

test.each(BACKENDS)("%s: a client whose clock is wrong", async (name, options, timeAuthority) => {
  for (const [offset, wrongBy] of [
    ["+1h", HOUR_MS],
    ["-1h", -HOUR_MS],
  ]) {
    const startedAt = Date.now();
    const seen = await seenAt(offset, name, options);
    expect(seen.capabilities).toMatchObject({
      ...{ backend: name, supportsFencing: true, timeAuthority },
    });
    expect(seen.ok).toBe(true);
    const expected = startedAt + (timeAuthority === "client" ? wrongBy : 0);
    for (const time of [
      seen.acquiredAtMs,
      seen.held.expiresAtMs - TTL_MS,
      seen.extended.expiresAtMs - 2 * TTL_MS,
    ]) {
      expect(Math.abs(time - expected)).toBeLessThan(NOISE_MS);
    }
  }
});
