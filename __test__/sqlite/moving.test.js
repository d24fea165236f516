// The default file moves from the temp directory, where the previous version keeps it, to the home
// directory. A process with the path in the temp directory as its target simulates that version.

import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { testFolder } from "./folder.js";
import { ATTEMPT, makeUser } from "./user.js";

const folder = testFolder();
let count = 0;

function newUser() {
  const path = join(folder.path, String(++count));
  mkdirSync(path);
  const user = makeUser(path);
  const target = JSON.stringify(user.previousFile);
  /** Runs a program with the previous version. */
  const startPrevious = (program) => {
    mkdirSync(join(user.previousFile, ".."), { recursive: true, mode: 0o700 });
    return user.start(program, { target });
  };
  return { ...user, startPrevious };
}

/** Returns the code that runs another program while it has the file open, and prints its output. */
const meanwhile = (program, env) => `
  import { spawnSync } from "node:child_process";
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ["--input-type=module", "--eval", ${JSON.stringify(program)}],
    { encoding: "utf8", env: { ...process.env, ...${JSON.stringify(env ?? {})} } },
  );
  const inside = JSON.parse(stdout || JSON.stringify(stderr));
`;

const NEW = `
  import { createSqliteBackend } from ${JSON.stringify(new URL("../../js/sqlite.js", import.meta.url).href)};
  const backend = createSqliteBackend();
  const print = (value) => console.log(JSON.stringify(value));
  ${ATTEMPT}
  await backend.close();
`;

// The library that replaces the user database exists only on Linux.
describe.runIf(process.platform === "linux")("beside the previous version", () => {
  test("a held lock is respected, and its holder is not disturbed", async () => {
    const user = newUser();
    const seen = await user.startPrevious(`
      const held = await backend.acquire({ key: "k", ttlMs: 60_000 });
      ${meanwhile(NEW)}
      const { ok: extended } = await held.extend(60_000);
      const { ok: released } = await held.release();
      print({ inside, extended, released });
    `);
    expect(seen).toMatchObject({ inside: { ok: false }, extended: true, released: true });
    // No process has the file open any more: it moves, and its fences continue.
    expect(await user.start(ATTEMPT)).toMatchObject({ ok: true, fence: "000000000000002" });
    expect(existsSync(user.file)).toBe(true);
    // The previous version refuses what is left in the temp directory.
    const late = await user.startPrevious(ATTEMPT);
    expect(late).toMatchObject({ code: "InvalidArgument" });
    expect(late.message).toContain(user.file);
  });

  test("all processes of this version use the same file, whatever their TMPDIR is", async () => {
    const user = newUser();
    const elsewhere = join(user.temp, "elsewhere");
    mkdirSync(elsewhere);
    const seen = await user.startPrevious(`
      await backend.isLocked({ key: "k" });
      ${meanwhile(NEW)}
      const { ok } = await backend.acquire({ key: "k", ttlMs: 60_000 });
      print({ inside, ok });
    `);
    expect(seen).toMatchObject({ inside: { ok: true, fence: "000000000000001" }, ok: false });
    expect(await user.start(ATTEMPT, { env: { TMPDIR: elsewhere } })).toMatchObject({ ok: false });
  });
});
