// syncguard run: signals, and the processes that the command has started.

import { beforeAll, describe, expect, test } from "vitest";
import { until } from "../fixtures/wait.js";
import { connect } from "./backends.js";
import { isAlive, startCli, stateOf } from "./cli.js";

let at;
beforeAll(async () => (at = await connect("sqlite")));

const start = (key, script, options = []) =>
  startCli(["run", key, ...options, ...at.args, "--", "sh", "-c", script]);

const LOOP = "while :; do sleep 0.05; done";

/** Returns the process ids that a script has printed, one per line after "pids". */
async function pidsOf(started, count) {
  const lines = () => started.stdout.split("\n").filter((line) => /^\d+$/.test(line));
  await until(() => lines().length >= count, "the process ids");
  return lines().map(Number);
}

describe("a signal while the command runs", () => {
  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
    ["SIGQUIT", 131],
    ["SIGUSR1", 138],
    ["SIGUSR2", 140],
    ["SIGALRM", 142],
  ])("%s ends it as it would without us", async (signal, code) => {
    const key = at.key();
    const holder = start(key, `echo in; exec sleep 60`);
    await holder.said("in");
    holder.child.kill(signal);
    expect(await holder.ended).toEqual({ code, signal: null, stdout: "in\n", stderr: "" });
    expect(await at.backend.isLocked({ key })).toBe(false);
  });

  test("SIGINT is forwarded each time, and the lock is held until the command ends", async () => {
    const key = at.key();
    const script = `trap 'echo first; trap "echo second; exit 9" INT' INT; echo in; ${LOOP}`;
    const holder = start(key, script);
    await holder.said("in");
    holder.child.kill("SIGINT");
    await holder.said("first");
    expect(await at.backend.isLocked({ key })).toBe(true);
    holder.child.kill("SIGINT");
    expect(await holder.ended).toMatchObject({ code: 9, stdout: "in\nfirst\nsecond\n" });
    expect(await at.backend.isLocked({ key })).toBe(false);
  });

  test("an informing signal reaches the command alone, not its child processes", async () => {
    const holder = start(
      at.key(),
      `trap 'echo told; kill $!; exit 0' USR1; sleep 60 & echo in; wait`,
    );
    await holder.said("in");
    holder.child.kill("SIGUSR1");
    expect(await holder.ended).toMatchObject({ code: 0, stdout: "in\ntold\n", stderr: "" });
  });

  test("a terminating signal reaches all processes of the command", async () => {
    const child = `sh -c 'trap "echo child; exit" TERM; echo ready; ${LOOP}' & echo in; wait; wait`;
    const holder = start(at.key(), `trap 'echo parent' TERM; ${child}`);
    await holder.said("ready");
    await holder.said("in");
    holder.child.kill("SIGTERM");
    const { stdout } = await holder.ended;
    expect(stdout.split("\n").sort()).toEqual(["", "child", "in", "parent", "ready"]);
  });

  test("SIGTSTP stops all processes and SIGCONT continues them", async () => {
    // The shell starts nothing more. If it were stopped while it starts a program with vfork(), ps would
    // show it as waiting (D) and not as stopped (T).
    const holder = start(at.key(), `sleep 60 & echo $!; echo $$; wait`);
    const pids = [...(await pidsOf(holder, 2)), holder.pid];
    // The command may be heard before its holder knows that it has started.
    holder.child.kill("SIGTSTP");
    await until(() => pids.every((pid) => stateOf(pid) === "T"), "all to stop");
    holder.child.kill("SIGCONT");
    await until(() => pids.every((pid) => stateOf(pid) !== "T"), "all to continue");
    holder.child.kill("SIGTERM");
    expect((await holder.ended).code).toBe(143);
  });
});

test("processes that the command leaves behind end with the lock", async () => {
  const key = at.key();
  const holder = start(key, `sleep 60 >/dev/null 2>&1 & echo $!; exit 4`);
  const [pid] = await pidsOf(holder, 1);
  expect((await holder.ended).code).toBe(4);
  expect(isAlive(pid)).toBe(false);
  expect(await at.backend.isLocked({ key })).toBe(false);
});

test("a command that ignores SIGTERM is killed after --kill-after, and the lock is released only then", async () => {
  const key = at.key();
  const stubborn = `(trap '' TERM; echo ready; exec sleep 60) >&2 & echo $!; sleep 0.3; exit 0`;
  const holder = start(key, stubborn, ["--kill-after", "1s"]);
  const [pid] = await pidsOf(holder, 1);
  await until(async () => {
    const isLocked = await at.backend.isLocked({ key });
    // In this order: what lives now lived when the lock was looked at.
    if (isAlive(pid)) expect(isLocked).toBe(true);
    return !isLocked;
  }, "the lock to be released");
  expect(isAlive(pid)).toBe(false);
  expect((await holder.ended).code).toBe(0);
});

test.each(["SIGINT", "SIGTERM", "SIGHUP"])("%s while it waits ends the wait", async (signal) => {
  const key = at.key();
  const held = await at.backend.acquire({ key, ttlMs: 60_000 });
  const waiter = start(key, "echo never", ["-v"]);
  // By then it takes signals: a wait that is about to begin ends as well.
  await until(() => waiter.stderr.includes("protects this host only"), "it to be about to wait");
  waiter.child.kill(signal);
  const code = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }[signal];
  const stderr = expect.stringMatching(/^syncguard: .* protects this host only\n$/);
  expect(await waiter.ended).toEqual({ code, signal: null, stdout: "", stderr });
  expect((await held.release()).ok).toBe(true);
  expect(await at.backend.isLocked({ key })).toBe(false);
});
