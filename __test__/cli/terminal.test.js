// The command line on a terminal: its output and its input.

import { beforeAll, expect, test } from "vitest";
import { forceRelease } from "../fixtures/api.js";
import { until } from "../fixtures/wait.js";
import { connect } from "./backends.js";
import { isAlive, startOnTerminal, stateOf } from "./cli.js";

const CTRL_C = "\x03";
const CTRL_Z = "\x1a";

let at;
beforeAll(async () => (at = await connect("sqlite")));

const start = (key, script, options = []) =>
  startOnTerminal(["run", key, ...options, ...at.args, "--", "sh", "-c", script]);

/** Returns the numbers that a script has printed, one per line. */
async function numbers(started, count) {
  const found = () => [...started.stdout.matchAll(/^(\d+)\r?$/gm)].map(([, text]) => Number(text));
  await until(() => found().length >= count, "the numbers");
  return found();
}

test("a wait shows who holds the lock and since when, in one line that is redrawn", async () => {
  const key = at.key();
  const held = await at.backend.acquire({ key, ttlMs: 60_000 });
  const waiter = start(key, "echo mine");
  await waiter.said("for 2s");
  await held.release();
  const { code, stdout } = await waiter.ended;
  expect(code).toBe(0);
  const drawn = stdout.split("\r\x1b[K");
  expect(drawn.length).toBeGreaterThan(3);
  const line = `waiting for ${at.hash(key)} for \\d+s, held by ${at.hash(held.lockId)} since \\d\\d:\\d\\d:\\d\\d`;
  expect(drawn[1]).toMatch(new RegExp(`^syncguard: ${line}$`));
  // The line is gone when the command begins.
  expect(drawn.at(-1)).toBe("mine\r\n");
  for (const secret of [key, held.lockId]) expect(stdout).not.toContain(secret);
});

test("-q shows nothing", async () => {
  const key = at.key();
  const held = await at.backend.acquire({ key, ttlMs: 60_000 });
  const waiter = start(key, "echo mine", ["-q"]);
  await new Promise((resolve) => setTimeout(resolve, 2000));
  await held.release();
  expect((await waiter.ended).stdout).toBe("mine\r\n");
});

test("Ctrl-C ends a wait", async () => {
  const key = at.key();
  const held = await at.backend.acquire({ key, ttlMs: 60_000 });
  const waiter = start(key, "echo never");
  await waiter.said("waiting");
  waiter.type(CTRL_C);
  const { code, stdout } = await waiter.ended;
  expect(code).toBe(130);
  expect(stdout).not.toContain("never");
  await held.release();
});

test("the command can read input from stdin and from its terminal", async () => {
  const reader = start(at.key(), `echo in; read a; read b </dev/tty; echo "got $a $b"`);
  await reader.said("in");
  reader.type("one\n");
  reader.type("two\n");
  await reader.said("got one two");
  expect((await reader.ended).code).toBe(0);
});

test("each Ctrl-C reaches the command exactly once", async () => {
  const key = at.key();
  const script = `n=0; trap 'n=$((n+1)); echo "caught $n"' INT; echo in; while [ $n -lt 2 ]; do sleep 0.1; done; sleep 0.5; echo "all $n"; exit 5`;
  const holder = start(key, script);
  await holder.said("in");
  holder.type(CTRL_C);
  await holder.said("caught 1");
  expect(await at.backend.isLocked({ key })).toBe(true);
  holder.type(CTRL_C);
  await holder.said("caught 2");
  const { code, stdout } = await holder.ended;
  expect(stdout).toContain("all 2");
  expect(code).toBe(5);
  expect(await at.backend.isLocked({ key })).toBe(false);
});

test("a signal that is sent to syncguard is forwarded", async () => {
  const holder = start(
    at.key(),
    `trap 'echo told; exit 6' TERM; echo $PPID; while :; do sleep 0.1; done`,
  );
  const [pid] = await numbers(holder, 1);
  process.kill(pid, "SIGTERM");
  const { code, stdout } = await holder.ended;
  expect(stdout).toContain("told");
  expect(code).toBe(6);
});

test("Ctrl-Z stops everything and returns the terminal to the shell", async () => {
  const script = `echo $PPID; echo $$; read line; echo "got $line"; exit 8`;
  const args = ["run", at.key(), ...at.args, "--", "sh", "-c", script];
  const within = (command) => `set -m; ${command}; echo stopped $?; read line; fg; echo ended $?`;
  const shell = startOnTerminal(args, { within });
  const pids = await numbers(shell, 2);
  shell.type(CTRL_Z);
  await shell.said("stopped");
  expect(pids.map(stateOf)).toEqual(["T", "T"]);
  shell.type("go on\n");
  await until(() => pids.every((pid) => stateOf(pid) === "S"), "both to go on");
  shell.type("typed\n");
  await shell.said("got typed");
  await shell.said("ended 8");
  await shell.ended;
});

test("a lost lock ends all processes that the command has started, and no others", async () => {
  const key = at.key();
  // The first is an orphan by then; the second does not listen.
  const script = `(sleep 60 & echo $!); sh -c 'trap "" TERM; echo $$; while :; do sleep 0.1; done' & wait`;
  const holder = start(key, script, ["--ttl", "1s", "--kill-after", "500ms"]);
  const pids = await numbers(holder, 2);
  expect(pids.map(isAlive)).toEqual([true, true]);
  await forceRelease(at.backend, { key });
  const { code, stdout } = await holder.ended;
  // The program that plays the terminal is in no danger: it tells the exit code.
  expect(code).toBe(74);
  expect(stdout).toContain("ending the command");
  expect(pids.map(isAlive)).toEqual([false, false]);
});

test("processes that the command leaves behind end with the lock", async () => {
  const key = at.key();
  // It does not care that its terminal goes away.
  const holder = start(key, `(trap '' HUP; exec sleep 60) & echo $!; exit 3`);
  const [pid] = await numbers(holder, 1);
  expect((await holder.ended).code).toBe(3);
  expect(isAlive(pid)).toBe(false);
  expect(await at.backend.isLocked({ key })).toBe(false);
});

test("ls --watch redraws in place", async () => {
  const key = at.key();
  const held = await at.backend.acquire({ key, ttlMs: 60_000 });
  const watcher = startOnTerminal(["ls", "--watch", ...at.args]);
  await watcher.said(at.hash(key));
  const shown = watcher.stdout.split("\n").length - 1;
  await watcher.said(`\x1b[${shown}A\x1b[J`);
  await held.release();
  const last = () => watcher.stdout.split("\x1b[J").at(-1);
  await until(() => last().includes("KEY") && !last().includes(at.hash(key)), "it to be gone");
  watcher.type(CTRL_C);
  await watcher.ended;
});
