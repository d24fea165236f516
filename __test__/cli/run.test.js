// syncguard run: exit codes, waiting, losing the lock; on every backend.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { forceRelease } from "../fixtures/api.js";
import { NOISE_MS, until } from "../fixtures/wait.js";
import { testFolder } from "../sqlite/folder.js";
import { BACKENDS, connect, PROTECTS } from "./backends.js";
import { cli, startCli } from "./cli.js";

const folder = testFolder();
const sh = (script) => ["--", "sh", "-c", script];

describe.each(BACKENDS)("%s", (kind) => {
  let at;
  beforeAll(async () => (at = await connect(kind)));

  const run = (key, options, command) => cli(["run", key, ...options, ...at.args, ...command]);
  const isLocked = (key) => at.backend.isLocked({ key });

  test("the command inherits the streams, keeps its exit code and knows its lock", async () => {
    const key = at.key();
    const script = `cat; echo "$SYNCGUARD_KEY,$SYNCGUARD_LOCK_ID,$SYNCGUARD_FENCE"; echo bad >&2; exit 7`;
    const args = ["run", key, ...at.args, ...sh(script)];
    const { code, stdout, stderr } = await cli(args, { input: "in\n" });
    expect(code).toBe(7);
    expect(stderr).toBe("bad\n");
    const [first, known] = stdout.split("\n");
    expect(first).toBe("in");
    expect(known).toMatch(new RegExp(`^${key},[\\w-]{22},0{14}1$`));
    expect(await isLocked(key)).toBe(false);
  });

  test("the key is locked while the command runs", async () => {
    const key = at.key();
    const holder = startCli(["run", key, "--ttl", "2s", ...at.args, ...sh("echo in; read line")]);
    await holder.said("in");
    const expiresAtMs = (await at.backend.lookup({ key })).expiresAtMs;
    const [refused, forCron, impatient] = await Promise.all([
      run(key, ["-n"], sh("echo never")),
      run(key, ["-n", "-E", "0"], sh("echo never")),
      run(key, ["--wait", "200ms", "-E9"], sh("echo never")),
    ]);
    expect(refused).toMatchObject({ code: 75, stdout: "" });
    expect(refused.stderr).toMatch(
      /^syncguard: the lock is busy: another holder has it; its lease ends in \d+m?s unless it is extended\n$/,
    );
    expect(forCron).toMatchObject({ code: 0, stdout: "", stderr: "" });
    expect(impatient).toMatchObject({ code: 9, stdout: "" });
    expect(impatient.stderr).toContain("its lease ends in ");
    await until(
      async () => (await at.backend.lookup({ key })).expiresAtMs > expiresAtMs,
      "a heartbeat",
    );
    // Without a limit it waits, and in silence: there is no terminal.
    const waiter = startCli(["run", key, ...at.args, ...sh("echo mine")], { input: "" });
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect(waiter.stdout + waiter.stderr).toBe("");
    holder.child.stdin.end("\n");
    expect((await holder.ended).code).toBe(0);
    expect(await waiter.ended).toMatchObject({ code: 0, stdout: "mine\n", stderr: "" });
  });

  test("a lost lock ends the command and all processes that it has started", async () => {
    const key = at.key();
    const script = `trap 'echo asked' TERM; (trap '' TERM; sleep 60; echo late) & echo in; while :; do sleep 0.1; done`;
    const options = ["--ttl", "1s", "--kill-after", "300ms", ...at.args];
    const holder = startCli(["run", key, ...options, ...sh(script)]);
    await holder.said("in");
    expect(await forceRelease(at.backend, { key })).toEqual({ ok: true });
    // Its output ends with the last of its processes.
    const { code, stdout, stderr } = await holder.ended;
    expect(code).toBe(74);
    expect(stdout).toBe("in\nasked\n");
    expect(stderr).toMatch(/^syncguard: The lock was lost: .*; ending the command\n/);
    expect(stderr).not.toContain(key);
  });

  test("--at-most ends the command and releases the lock only after that", async () => {
    const key = at.key();
    // It ends when it is told to, after a look at the lock.
    const script = `trap 'echo told; read line; echo tidy; exit 0' TERM; echo in; while :; do sleep 0.05; done`;
    const started = performance.now();
    const options = ["--at-most", "1s", "--kill-after", "60s"];
    const holder = startCli(["run", key, ...options, ...at.args, ...sh(script)]);
    await holder.said("told");
    expect(performance.now() - started).toBeGreaterThan(1_000);
    expect(await isLocked(key)).toBe(true);
    holder.child.stdin.end("\n");
    expect(await holder.ended).toMatchObject({ code: 74, stdout: "in\ntold\ntidy\n" });
    expect(await isLocked(key)).toBe(false);
  });

  test("--at-least keeps the lock but does not delay the caller", async () => {
    const key = at.key();
    const started = performance.now();
    // Far beyond what starting a process can take.
    expect((await run(key, ["--at-least", "90s"], ["--", "true"])).code).toBe(0);
    expect(performance.now() - started).toBeLessThan(60_000);
    expect((await run(key, ["-n"], ["--", "true"])).code).toBe(75);
    const { acquiredAtMs, expiresAtMs } = await at.backend.lookup({ key });
    expect(Math.abs(expiresAtMs - acquiredAtMs - 90_000)).toBeLessThan(NOISE_MS);
  });

  test("eight commands that start at once run one by one, with rising fences", async () => {
    const key = at.key();
    const log = join(folder.path, `${kind}.log`);
    const script = `echo "in $SYNCGUARD_FENCE" >> ${log}; sleep 0.05; echo out >> ${log}`;
    const ends = await Promise.all(Array.from({ length: 8 }, () => run(key, [], sh(script))));
    expect(ends.map(({ code }) => code)).toEqual(Array(8).fill(0));
    const fences = Array.from({ length: 8 }, (_, i) => `in ${String(i + 1).padStart(15, "0")}`);
    expect(readFileSync(log, "utf8")).toBe(fences.map((line) => `${line}\nout\n`).join(""));
  });

  test("-v prints the store and the events with hashes, and -q prints nothing", async () => {
    const key = at.key();
    const loud = await run(key, ["-v"], ["--", "true"]);
    const [store, locked, released, end] = loud.stderr.split("\n");
    expect(store).toBe(`syncguard: ${at.store} protects ${PROTECTS[kind]}`);
    expect(locked).toMatch(
      new RegExp(`^syncguard: locked ${at.hash(key)} in ${kind} after \\S+, fence \\d{15}$`),
    );
    expect([released, end]).toEqual(["syncguard: released", ""]);
    expect(loud.stderr).not.toContain(key);
    const held = await at.backend.acquire({ key, ttlMs: 60_000 });
    expect(await run(key, ["-q", "-n"], ["--", "true"])).toMatchObject({
      code: 75,
      stdout: "",
      stderr: "",
    });
    await held.release();
  });
});

describe("the command", () => {
  let at;
  beforeAll(async () => (at = await connect("sqlite")));

  test.each([
    ["is not there", "/nowhere/at-all", 127, "The command was not found: check its name and PATH."],
    [
      "is not in PATH",
      "no-such-program-anywhere",
      127,
      "The command was not found: check its name and PATH.",
    ],
    [
      "cannot be run",
      "/tmp",
      126,
      "The command cannot be run (EACCES): check that it is executable.",
    ],
  ])("that %s", async (_what, command, code, text) => {
    const key = at.key();
    const end = await cli(["run", key, ...at.args, "--", command]);
    expect(end).toMatchObject({ code, stderr: `syncguard: ${text}\n` });
    expect(await at.backend.isLocked({ key })).toBe(false);
  });

  test("makes syncguard exit with 128 + n if a signal killed it", async () => {
    const { code, signal } = await cli(["run", at.key(), ...at.args, ...sh("kill -9 $$")]);
    expect([code, signal]).toEqual([137, null]);
  });

  test("gets its arguments unchanged", async () => {
    const words = ["a b", "", "--", "-n", "--url", "$HOME"];
    const args = ["run", at.key(), ...at.args, "--", "printf", "%s|", ...words];
    expect((await cli(args)).stdout).toBe(words.map((word) => `${word}|`).join(""));
  });

  test("uses SYNCGUARD_URL unless --url is given", async () => {
    const key = at.key();
    await at.backend.acquire({ key, ttlMs: 60_000 });
    const env = { SYNCGUARD_URL: at.url };
    expect((await cli(["run", key, "-n", "--", "true"], { env })).code).toBe(75);
    const other = `sqlite:${folder.file()}`;
    expect((await cli(["run", key, "-n", "--url", other, "--", "true"], { env })).code).toBe(0);
  });

  test.each([
    ["a Redis", "redis://:s3cret@127.0.0.1:1"],
    ["a PostgreSQL", "postgres://user:s3cret@127.0.0.1:1/db"],
    ["a folder for a SQLite", "sqlite:/nowhere/at-all/locks.db"],
  ])("is not run when %s cannot be reached", async (_what, url) => {
    const key = at.key();
    const args = ["run", key, "--url", url, "--", "echo", "never"];
    const { code, stdout, stderr } = await cli(args);
    expect([code, stdout]).toEqual([69, ""]);
    expect(stderr).toMatch(/^syncguard: .+\.\n$/);
    for (const secret of ["s3cret", key]) expect(stderr).not.toContain(secret);
  });
});
