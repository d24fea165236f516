// syncguard run with several holders or several keys, and what ls, show and release say of shared locks.

import { beforeAll, describe, expect, test } from "vitest";
import { hold, tryHold } from "../fixtures/api.js";
import { until } from "../fixtures/wait.js";
import { connect as connectPostgres } from "../postgres/open.js";
import { BACKENDS, connect } from "./backends.js";
import { cli, startCli } from "./cli.js";

const sh = (script) => ["--", "sh", "-c", script];
const WAITS = sh("echo in; read line");
const FIRST = "000000000000001";
const lines = (text) => text.split("\n").slice(0, -1);
const json = ({ stdout }) => lines(stdout).map((line) => JSON.parse(line));

/** Prints what the command is told about its locks, in order. */
const TELL = sh("env | grep -E '^SYNCGUARD_(KEY|LOCK_ID|FENCE|SLOT)' | sort");

describe.each(BACKENDS)("%s", (kind) => {
  let at;
  beforeAll(async () => (at = await connect(kind)));

  const run = (...args) => cli([...args, ...at.args]);
  const start = async (...args) => {
    const started = startCli(["run", ...at.args, ...args, ...WAITS]);
    await started.said("in");
    return started;
  };
  const end = async (started) => {
    started.child.stdin.end("\n");
    expect((await started.ended).code).toBe(0);
  };

  describe("several keys", () => {
    test("are all held while the command runs, and it is told about each", async () => {
      const [a, b] = [at.key(), at.key()];
      const script = `${TELL.at(-1)}; echo in; read line`;
      const holder = startCli(["run", ...at.args, "--key", b, `--key=${a}`, ...sh(script)]);
      await holder.said("in\n");
      expect(await at.backend.isLocked({ key: a })).toBe(true);
      expect(await at.backend.isLocked({ key: b })).toBe(true);
      const told = Object.fromEntries(
        lines(holder.stdout)
          .slice(0, -1)
          .map((line) => line.split("=")),
      );
      const id = expect.stringMatching(/^[\w-]{22}$/);
      // In the order of the options, and nothing for all of them together.
      expect(told).toEqual({
        ...{ SYNCGUARD_KEY_1: b, SYNCGUARD_FENCE_1: FIRST, SYNCGUARD_LOCK_ID_1: id },
        ...{ SYNCGUARD_KEY_2: a, SYNCGUARD_FENCE_2: FIRST, SYNCGUARD_LOCK_ID_2: id },
      });
      expect(told.SYNCGUARD_LOCK_ID_1).not.toBe(told.SYNCGUARD_LOCK_ID_2);
      await end(holder);
      expect(await at.backend.isLocked({ key: a })).toBe(false);
      expect(await at.backend.isLocked({ key: b })).toBe(false);
    });

    test("are all or none: the refusal names the busy one by its hash", async () => {
      const [a, b] = [at.key(), at.key()];
      const held = await hold(at.backend, { key: b });
      const args = ["run", "--key", a, "--key", b, ...at.args];
      const refused = await cli([...args, "-n", ...sh("echo never")]);
      expect(refused).toMatchObject({ code: 75, stdout: "" });
      expect(refused.stderr).toMatch(
        new RegExp(
          `^syncguard: one of the locks is busy: another holder has the lock on ${at.hash(b)}; its lease ends in \\S+ unless it is extended\n$`,
        ),
      );
      const late = await cli([...args, "-w", "200ms", ...sh("echo never")]);
      expect(late).toMatchObject({ code: 75, stdout: "" });
      expect(late.stderr).toBe("syncguard: one of the locks stayed busy\n");
      await until(async () => !(await at.backend.isLocked({ key: a })), "the other to be free");
      await held.release();
    });

    test("one key given with --key is one lock, and its command is told as always", async () => {
      const key = at.key();
      const { code, stdout } = await cli(["run", "--key", key, ...at.args, ...TELL]);
      expect(code).toBe(0);
      const names = lines(stdout).map((line) => line.split("=")[0]);
      expect(names).toEqual(["SYNCGUARD_FENCE", "SYNCGUARD_KEY", "SYNCGUARD_LOCK_ID"]);
    });

    test("a lost lock of one of them ends the command", async () => {
      const [a, b] = [at.key(), at.key()];
      const options = ["--ttl", "1s", "--kill-after", "300ms"];
      const args = ["run", "--key", a, "--key", b, ...options, ...at.args];
      const holder = startCli([...args, ...sh("echo in; sleep 60")]);
      await holder.said("in");
      expect((await run("release", b, "--force")).stdout).toBe("Released.\n");
      const { code, stderr } = await holder.ended;
      expect(code).toBe(74);
      expect(stderr).toMatch(/^syncguard: The lock was lost: .*; ending the command\n/);
      expect(await at.backend.isLocked({ key: a })).toBe(false);
    });
  });

  describe("several holders", () => {
    test("--concurrency lets in that many, each with a slot", async () => {
      const key = at.key();
      const first = await start(key, "--concurrency", "2");
      const second = await cli(["run", key, "--concurrency", "2", ...at.args, ...TELL]);
      expect(second.code).toBe(0);
      expect(lines(second.stdout)).toEqual([
        "SYNCGUARD_FENCE=000000000000002",
        `SYNCGUARD_KEY=${key}`,
        expect.stringMatching(/^SYNCGUARD_LOCK_ID=[\w-]{22}$/),
        "SYNCGUARD_SLOT=1",
      ]);
      const third = await start(key, "--concurrency", "2");
      const full = await cli(["run", key, "--concurrency", "2", "-n", ...at.args, ...TELL]);
      expect(full).toMatchObject({ code: 75, stdout: "" });
      expect(full.stderr).toMatch(
        /^syncguard: the lock is busy: 2 holders share it; the last lease ends in \S+ unless it is extended\n$/,
      );
      await Promise.all([end(first), end(third)]);
      expect(await at.backend.isLocked({ key })).toBe(false);
    });

    test("--shared lets in any number of readers, and no writer", async () => {
      const key = at.key();
      const reader = await start(key, "--shared");
      const other = await cli(["run", key, "--shared", "-v", ...at.args, ...sh("echo mine")]);
      expect(other).toMatchObject({ code: 0, stdout: "mine\n" });
      expect(other.stderr).toMatch(/, fence \d{15}, slot 1\n/);
      const limited = ["run", key, "--shared", "--concurrency", "1", "-n", ...at.args];
      expect((await cli([...limited, "--", "true"])).code).toBe(75);
      expect((await cli(["run", key, "-n", ...at.args, "--", "true"])).code).toBe(75);
      // A writer that waits keeps new readers out, and they are told why.
      const writer = hold(at.backend, { key, acquisition: { timeoutMs: 60_000 } });
      await until(async () => {
        const probe = await tryHold(at.backend, { key, mode: "shared" });
        await probe?.release();
        return probe === null;
      }, "the writer to wait");
      const refused = await cli(["run", key, "--shared", "-n", ...at.args, "--", "true"]);
      expect(refused.stderr).toContain("somebody waits to be the only holder of it");
      await end(reader);
      await (await writer).release();
    });

    test("a slot for each of several keys", async () => {
      const [a, b] = [at.key(), at.key()];
      const holder = await hold(at.backend, { key: b, mode: "shared" });
      const args = ["run", "--key", a, "--key", b, "--shared", ...at.args];
      const { stdout } = await cli([...args, ...TELL]);
      expect(lines(stdout).filter((line) => line.includes("SLOT"))).toEqual([
        "SYNCGUARD_SLOT_1=0",
        "SYNCGUARD_SLOT_2=1",
      ]);
      await holder.release();
    });

    test("ls shows each holder, show the last and their number, and release ends all", async () => {
      const key = at.key();
      const share = { key, concurrency: 3 };
      const last = await at.backend.acquire({ ...share, ttlMs: 90_000 });
      const first = await at.backend.acquire({ ...share, ttlMs: 60_000 });
      const alone = await at.backend.acquire({ key: at.key(), ttlMs: 60_000 });

      const [, head, ...rows] = lines((await run("ls")).stdout);
      expect(head).toMatch(/^KEY +HELD BY +MODE +SLOT +FENCE +HELD FOR +EXPIRES IN$/);
      const rowOf = ({ lockId }) => rows.find((row) => row.includes(at.hash(lockId)));
      expect(rowOf(last)).toMatch(/ shared +0 +\d{15} /);
      expect(rowOf(first)).toMatch(/ shared +1 +\d{15} /);
      expect(rowOf(alone)).toMatch(/ exclusive +\d{15} /);
      const listed = json(await run("ls", "--json")).filter(
        ({ keyHash }) => keyHash === at.hash(key),
      );
      expect(listed.map(({ mode, slot }) => [mode, slot]).sort()).toEqual([
        ["shared", 0],
        ["shared", 1],
      ]);

      const { stdout } = await run("show", key);
      expect(stdout).toMatch(/^mode +shared$/m);
      expect(stdout).toMatch(/^slot +0$/m);
      expect(stdout).toMatch(/^holders +2, of which this one expires last$/m);
      expect(stdout).toContain(at.hash(last.lockId));
      const [found] = json(await run("show", key, "--json"));
      expect(found).toMatchObject({ locked: true, mode: "shared", slot: 0, holders: 2 });

      const released = await run("release", key, "--force");
      expect(released).toMatchObject({ code: 0, stdout: "Released. It had 2 holders.\n" });
      for (const held of [last, first]) expect((await held.release()).ok).toBe(false);
      await alone.release();
    });
  });
});

test("the command inside of another one is not told about the locks of the outer one", async () => {
  const at = await connect("sqlite");
  const inner = ["run", "--key", at.key(), "--key", at.key(), ...at.args, ...TELL];
  const outer = ["run", at.key(), ...at.args, "--", process.execPath, "js/cli.js", ...inner];
  const { code, stdout } = await cli(outer);
  expect(code).toBe(0);
  const names = lines(stdout).map((line) => line.split("=")[0]);
  expect(names).toEqual(
    ["FENCE", "KEY", "LOCK_ID"].flatMap((name) =>
      [1, 2].map((number) => `SYNCGUARD_${name}_${number}`),
    ),
  );
});

test("a PostgreSQL that an earlier version has set up: exclusive locks work, and doctor says what is missing", async () => {
  const at = await connect("postgres");
  const sql = connectPostgres();
  await sql.unsafe(`DROP TABLE ${at.prefix}_locks_holders`);
  await sql.end();
  const run = (...args) => cli([...args, ...at.args]);
  const key = at.key();
  expect(await cli(["run", key, ...at.args, ...sh("echo alone")])).toMatchObject({
    ...{ code: 0, stdout: "alone\n" },
  });
  const shared = await cli(["run", key, "--shared", ...at.args, ...sh("echo never")]);
  expect(shared).toMatchObject({ code: 78, stdout: "" });
  const remedy = `npx syncguard schema --prefix ${at.prefix}`;
  expect(shared.stderr).toContain(remedy);

  const found = json(await run("doctor", "--json"));
  const by = Object.fromEntries(found.map((finding) => [finding.name, finding]));
  expect(by.lock.verdict).toBe("ok");
  expect(by.sharing).toMatchObject({ verdict: "warning" });
  expect(by.sharing.advice).toContain(remedy);
  expect(by.notifications.verdict).toBe("ok");

  expect((await run("schema", "--apply")).code).toBe(0);
  expect((await cli(["run", key, "--shared", ...at.args, "--", "true"])).code).toBe(0);
});
