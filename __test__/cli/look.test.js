// syncguard ls, show and release, on every backend.

import { beforeAll, describe, expect, test } from "vitest";
import { BACKENDS, connect, PROTECTS } from "./backends.js";
import { cli, startCli } from "./cli.js";

const lines = (text) => text.split("\n").slice(0, -1);
const json = ({ stdout }) => lines(stdout).map((line) => JSON.parse(line));

describe.each(BACKENDS)("%s", (kind) => {
  let at;
  beforeAll(async () => (at = await connect(kind)));

  const run = (...args) => cli([...args, ...at.args]);
  const where = () => ({ store: at.store, protects: PROTECTS[kind] });

  test("ls lists live locks as text, as JSON and with raw keys", async () => {
    expect(await run("ls")).toMatchObject({ code: 0, stderr: "" });
    expect(await run("ls", "--json")).toEqual({ code: 0, signal: null, stdout: "", stderr: "" });
    const key = at.key();
    const { lockId, fence, expiresAtMs } = await at.backend.acquire({ key, ttlMs: 60_000 });
    const [keyHash, lockIdHash] = [at.hash(key), at.hash(lockId)];

    const [about, head, row] = lines((await run("ls")).stdout);
    expect(about).toBe(`${at.store} protects ${PROTECTS[kind]}`);
    expect(head).toMatch(/^KEY +HELD BY +FENCE +HELD FOR +EXPIRES IN$/);
    expect(row).toMatch(new RegExp(`^${keyHash}  ${lockIdHash}  ${fence}  \\S+ +5\\ds$`));
    const [rawRow] = lines((await run("ls", "--raw")).stdout).slice(2);
    expect(rawRow).toMatch(new RegExp(`^${key}  ${lockId}  `));

    const lock = { keyHash, lockIdHash, fence, expiresAtMs, acquiredAtMs: expiresAtMs - 60_000 };
    const shown = { ...lock, mode: "exclusive", ...where() };
    expect(json(await run("ls", "--json"))).toEqual([shown]);
    expect(json(await run("ls", "--json", "--raw"))).toEqual([{ ...shown, key, lockId }]);
    await at.backend.release({ lockId });
  });

  test("show shows one lock, or says that there is none", async () => {
    const key = at.key();
    // Which store was asked matters most when nothing was found.
    const nothing = `Not locked.\nstore     ${at.store}\nprotects  ${PROTECTS[kind]}\n`;
    expect(await run("show", key)).toMatchObject({ code: 1, stdout: nothing, stderr: "" });
    const free = await run("show", key, "--json");
    expect(free.code).toBe(1);
    expect(json(free)).toEqual([{ locked: false, keyHash: at.hash(key), ...where() }]);

    const { lockId, fence } = await at.backend.acquire({ key, ttlMs: 60_000 });
    const { code, stdout } = await run("show", key);
    expect(code).toBe(0);
    for (const part of [at.hash(key), at.hash(lockId), fence, ...Object.values(where())]) {
      expect(stdout).toContain(part);
    }
    for (const secret of [key, lockId]) expect(stdout).not.toContain(secret);
    const [found] = json(await run("show", key, "--json", "--raw"));
    const lock = { keyHash: at.hash(key), key, lockId, fence, mode: "exclusive" };
    expect(found).toMatchObject({ locked: true, ...lock });
    expect(found).toMatchObject(where());
    await at.backend.release({ lockId });
  });

  test("release --force takes a lock away", async () => {
    const key = at.key();
    const { lockId } = await at.backend.acquire({ key, ttlMs: 60_000 });
    expect((await run("release", key)).code).toBe(64);
    expect(await at.backend.isLocked({ key })).toBe(true);
    const taken = await run("release", key, "--force");
    expect(taken).toMatchObject({ code: 0, stdout: "Released.\n", stderr: "" });
    expect(await at.backend.isLocked({ key })).toBe(false);
    expect((await at.backend.release({ lockId })).ok).toBe(false);
    const again = await run("release", key, "--force");
    expect(again).toMatchObject({ code: 1, stdout: "Not locked.\n" });
  });
});

describe("what is printed", () => {
  let at;
  beforeAll(async () => (at = await connect("sqlite")));

  test("a key cannot send control sequences to the terminal", async () => {
    const key = `${at.key()}\x1b[2J\r\n\u202e`;
    const { lockId } = await at.backend.acquire({ key, ttlMs: 60_000 });
    for (const command of [["ls"], ["show", key]]) {
      const { stdout } = await cli([...command, "--raw", ...at.args]);
      expect(stdout).toContain("\\u001b[2J\\u000d\\u000a\\u202e");
      expect(stdout).not.toMatch(/[\x1b\r\u202e]/);
    }
    await at.backend.release({ lockId });
  });

  test("a closed output pipe is not an error", async () => {
    const key = at.key();
    const { lockId } = await at.backend.acquire({ key, ttlMs: 60_000 });
    const watcher = startCli(["ls", "--watch", ...at.args]);
    await watcher.said("KEY");
    expect(watcher.stdout).not.toContain("\x1b");
    watcher.child.stdout.destroy();
    expect(await watcher.ended).toMatchObject({ code: 0, stderr: "" });
    await at.backend.release({ lockId });
  });

  test.each(["ls", "show k", "release k --force", "doctor"])(
    "%s says in a sentence that a server cannot be reached, without its password",
    async (command) => {
      const url = "redis://user:s3cret@127.0.0.1:1";
      const { code, stdout, stderr } = await cli([...command.split(" "), "--url", url]);
      expect(code).toBe(69);
      expect(stderr).toMatch(/^syncguard: .+\(ServiceUnavailable\)\.\n$/);
      expect(stdout + stderr).not.toContain("s3cret");
    },
  );
});
