// However a process ends, except by SIGKILL: its locks are released, and its exit code or signal stays
// the same.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isLong } from "../fixtures/size.js";

/** The ways in which a process ends, each with how it ends if it holds no lock. */
const WAYS = [
  // Its top-level await never settles, which Node.js reports by this code.
  { end: "by itself", expected: { code: 13, signal: null } },
  { end: "exit", expected: { code: 7, signal: null } },
  { end: "signal", signal: "SIGTERM", expected: { code: null, signal: "SIGTERM" } },
  { end: "blocked", signal: "SIGTERM", expected: { code: null, signal: "SIGTERM" } },
];

/** These differ only in what Node.js does, so one backend shows enough of them. */
const MORE_WAYS = [
  { end: "uncaught error", expected: { code: 1, signal: null } },
  { end: "signal", signal: "SIGINT", expected: { code: null, signal: "SIGINT" } },
  { end: "signal", signal: "SIGHUP", expected: { code: null, signal: "SIGHUP" } },
  { end: "handler", signal: "SIGTERM", expected: { code: 3, signal: null } },
  { end: "removed handler", signal: "SIGTERM", expected: { code: null, signal: "SIGTERM" } },
];

/** Starts a holder. `ended` resolves to how it ended, and `said` to whether it printed the text. */
export function start(job) {
  const holder = fileURLToPath(new URL("./holder.js", import.meta.url));
  const child = spawn(process.execPath, [holder, JSON.stringify(job)], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text) => (output += text));
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (errors += text));
  const ended = once(child, "exit").then(([code, signal]) => ({ code, signal }));
  const said = async (text) => {
    while (!output.includes(text) && child.exitCode === null && child.signalCode === null) {
      await Promise.race([once(child.stdout, "data"), ended]);
    }
    return output.includes(text);
  };
  const printedErrors = () => once(child, "close").then(() => errors);
  return { child, ended, said, printedErrors: printedErrors() };
}

async function run({ signal, ...job }) {
  const { child, ended, said } = start(job);
  expect(await said("ready")).toBe(true);
  if (signal !== undefined) child.kill(signal);
  return ended;
}

/**
 * @param {string} name
 * @param {object} store
 * @param {string} store.module exports `open(options)`, which a process calls
 * @param {() => object} store.options
 * @param {boolean} [store.everyWay] also tests the ways that do not depend on the backend
 */
export function processEnd(name, { module, options, everyWay = isLong }) {
  describe(`${name}: the end of a process`, () => {
    let backend;
    let count = 0;
    const newKey = () => `key:${(count += 1)}`;
    beforeAll(async () => {
      const { open } = await import(module);
      backend = await open(options());
    });
    afterAll(() => backend.close());
    const job = (more) => ({ module, options: options(), ...more });

    const ways = everyWay ? [...WAYS, ...MORE_WAYS] : WAYS;

    test.each(ways)("$end $signal releases the lock", async ({ expected, ...way }) => {
      const key = newKey();
      expect(await run(job({ ...way, config: { key } }))).toEqual(expected);
      expect(await backend.isLocked({ key })).toBe(false);
    });

    if (everyWay) {
      test.each(ways)("$end $signal is the same without a lock", async ({ expected, ...way }) => {
        expect(await run({ ...way, locks: false })).toEqual(expected);
      });
    }

    test.each(["lock", "lead"])("a lock of %s() is released too", async (form) => {
      const key = newKey();
      await run(job({ form, end: "signal", signal: "SIGTERM", config: { key } }));
      expect(await backend.isLocked({ key })).toBe(false);
    });

    // The signal may arrive between two operations. Several moments make it likely that once it does not.
    test.each([10, 20, 30])("a busy process releases the lock too (%i ms)", async (delayMs) => {
      const key = newKey();
      const { child, ended, said, printedErrors } = start(job({ end: "busy", config: { key } }));
      expect(await said("ready")).toBe(true);
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      child.kill("SIGTERM");
      expect(await ended).toEqual({ code: null, signal: "SIGTERM" });
      expect(await backend.isLocked({ key })).toBe(false);
      expect(await printedErrors).toBe("");
    });

    test("a program with a handler keeps its lock until it ends", async () => {
      const key = newKey();
      const { child, ended, said } = start(job({ end: "handler", config: { key } }));
      expect(await said("ready")).toBe(true);
      child.kill("SIGTERM");
      expect(await said("handled")).toBe(true);
      // The handler runs on the event loop: if the signal had released the lock, that came first.
      if (child.exitCode === null) expect(await backend.isLocked({ key })).toBe(true);
      expect(await ended).toEqual({ code: 3, signal: null });
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test.each(["exit", "signal"])("minHoldMs is respected (%s)", async (end) => {
      const key = newKey();
      const signal = end === "signal" ? "SIGTERM" : undefined;
      await run(job({ end, signal, config: { key, minHoldMs: 600_000 } }));
      const { expiresAtMs } = await backend.lookup({ key });
      // It has the rest of that time, and not the TTL of its heartbeats.
      expect(expiresAtMs - Date.now()).toBeGreaterThan(300_000);
    });

    test.each(["by itself", "exit", "signal"])("releaseOnExit: false (%s)", async (end) => {
      const key = newKey();
      const signal = end === "signal" ? "SIGTERM" : undefined;
      const kept = { ...options(), releaseOnExit: false };
      await run(job({ options: kept, end, signal, config: { key, ttlMs: 60_000 } }));
      expect(await backend.isLocked({ key })).toBe(true);
    });
  });
}
