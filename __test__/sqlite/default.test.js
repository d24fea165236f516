// The default file and lock() without a backend.

import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { rejection } from "../contracts/setup.js";
import { lock } from "../fixtures/api.js";
import { JS, run } from "../fixtures/node.js";
import { createSqliteBackend } from "../../js/sqlite.js";
import { testFolder } from "./folder.js";
import { ATTEMPT, makeUser, STATE } from "./user.js";

const folder = testFolder();
const uid = process.geteuid();
let count = 0;

function newFolder() {
  const path = join(folder.path, String(++count));
  mkdirSync(path);
  return path;
}

/** The directory of the default file for this process and its child processes. */
function stateDirectory() {
  const path = join(newFolder(), "state");
  vi.stubEnv("SYNCGUARD_STATE_DIR", path);
  vi.stubEnv("SYNCGUARD_URL", undefined);
  return path;
}
afterEach(() => vi.unstubAllEnvs());

const attempt = async () => {
  const backend = createSqliteBackend();
  try {
    return await backend.isLocked({ key: "k" });
  } finally {
    await backend.close();
  }
};

// The library that replaces the user database exists only on Linux.
describe.runIf(process.platform === "linux")("the default file", () => {
  test("is in the home directory of the user database, whatever the environment says", async () => {
    const user = makeUser(newFolder());
    const first = await user.start(ATTEMPT);
    expect(first).toMatchObject({ ok: true, fence: "000000000000001" });
    expect(statSync(join(user.home, STATE)).mode & 0o777).toBe(0o700);
    expect(existsSync(user.file)).toBe(true);
    const elsewhere = newFolder();
    const env = {
      HOME: elsewhere,
      TMPDIR: elsewhere,
      XDG_STATE_HOME: elsewhere,
      XDG_RUNTIME_DIR: elsewhere,
      XDG_DATA_HOME: elsewhere,
    };
    expect(await user.start(ATTEMPT, { env })).toMatchObject({ ok: false });
  });

  test("survives programs that clean the temp directory", async () => {
    const user = makeUser(newFolder());
    const { held, other } = await user.start(`
      import { execFileSync } from "node:child_process";
      const { held, other } = await lock(backend, async ({ isHeld }) => {
        execFileSync("find", [${JSON.stringify(user.temp)}, "-mindepth", "1", "-delete"]);
        const another = createSqliteBackend();
        const { ok } = await another.acquire({ key: "k", ttlMs: 1_000 });
        await another.close();
        return { held: isHeld(), other: ok };
      }, { key: "k", ttlMs: 60_000 });
      print({ held, other });
    `);
    expect({ held, other }).toEqual({ held: true, other: false });
  });

  /** Returns a directory of another user. */
  function anotherUsers() {
    if (uid !== 0) return "/";
    const path = newFolder();
    chownSync(path, 65_534, 65_534);
    return path;
  }

  test.each([
    ["does not exist", () => "/nonexistent"],
    ["belongs to another user", anotherUsers],
    ["is not a directory", () => "/dev/null"],
  ])("is in the temp directory if the home directory %s", async (_, home) => {
    const user = makeUser(newFolder(), { home: home() });
    expect(await user.start(ATTEMPT)).toMatchObject({ ok: true });
    expect(await user.start(ATTEMPT)).toMatchObject({ ok: false });
    expect(existsSync(user.previousFile)).toBe(true);
    expect(statSync(join(user.previousFile, "..")).mode & 0o777).toBe(0o700);
  });

  test("is in the temp directory for a user who is not in the user database", async () => {
    const user = makeUser(newFolder());
    writeFileSync(user.env.NSS_WRAPPER_PASSWD, `other:x:12345:12345::${user.home}:/bin/sh\n`);
    expect(await user.start(ATTEMPT)).toMatchObject({ ok: true });
    expect(existsSync(user.previousFile)).toBe(true);
    expect(existsSync(user.file)).toBe(false);
  });

  // systemd-tmpfiles skips a directory that it cannot lock.
  test("in the temp directory is protected from cleaners while it is open", async () => {
    const user = makeUser(newFolder(), { home: "/nonexistent" });
    const directory = join(user.previousFile, "..");
    const clean = `spawnSync("flock", ["-n", "-x", ${JSON.stringify(directory)}, "find", ${JSON.stringify(directory)}, "-type", "f", "-delete"]).status`;
    const { whileOpen, after, kept } = await user.start(`
      import { spawnSync } from "node:child_process";
      import { readdirSync } from "node:fs";
      await backend.acquire({ key: "k", ttlMs: 60_000 });
      const whileOpen = ${clean};
      const kept = readdirSync(${JSON.stringify(directory)}).includes("locks.db");
      await backend.close();
      print({ whileOpen, kept, after: ${clean} });
    `);
    expect({ whileOpen, after, kept }).toEqual({ whileOpen: 1, after: 0, kept: true });
    expect(readdirSync(directory)).toEqual([]);
  });

  test("a home directory that cannot be written to is an error, not another file", async () => {
    const user = makeUser(newFolder());
    mkdirSync(join(user.home, ".local"));
    symlinkSync("/proc/self", join(user.home, ".local", "state"));
    const { code, message } = await user.start(ATTEMPT);
    expect(code).toBe("InvalidArgument");
    expect(message).toContain("SYNCGUARD_STATE_DIR");
    expect(existsSync(user.previousFile)).toBe(false);
  });
});

describe("SYNCGUARD_STATE_DIR", () => {
  test("names the directory, which only the user can enter", async () => {
    const directory = stateDirectory();
    expect(await attempt()).toBe(false);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    expect(existsSync(join(directory, "locks.db"))).toBe(true);
  });

  test("does not affect a file with a path", async () => {
    const directory = stateDirectory();
    const path = folder.file();
    const backend = createSqliteBackend(path);
    await backend.isLocked({ key: "k" });
    await backend.close();
    expect(existsSync(path)).toBe(true);
    expect(existsSync(directory)).toBe(false);
  });

  test("must be absolute", () => {
    vi.stubEnv("SYNCGUARD_STATE_DIR", "state");
    expect(() => createSqliteBackend()).toThrow(
      expect.objectContaining({
        code: "InvalidArgument",
        message: expect.stringContaining("SYNCGUARD_STATE_DIR must be an absolute path"),
      }),
    );
  });

  test("is refused if it is a symbolic link", async () => {
    const directory = stateDirectory();
    const elsewhere = newFolder();
    symlinkSync(elsewhere, directory);
    const error = await rejection(attempt());
    expect(error.code).toBe("InvalidArgument");
    expect(error.message).toContain("symbolic link");
    expect(existsSync(join(elsewhere, "locks.db"))).toBe(false);
  });

  test("is refused if others can write to it", async () => {
    const directory = stateDirectory();
    mkdirSync(directory);
    chmodSync(directory, 0o777);
    const error = await rejection(attempt());
    expect(error.code).toBe("InvalidArgument");
    expect(error.message).toContain("other users");
    expect(existsSync(join(directory, "locks.db"))).toBe(false);
  });
});

// Only root can create files of other users.
describe.runIf(uid === 0)("another user's", () => {
  const NOBODY = 65_534;

  /** The first operation in a process of an ordinary user. */
  async function asNobody(target, directory) {
    const result = await run(
      `
        import { createSqliteBackend } from ${JSON.stringify(`${JS}sqlite.js`)};
        process.setgid(${NOBODY});
        process.setuid(${NOBODY});
        const backend = createSqliteBackend(${JSON.stringify(target) ?? ""});
        const { code, message } = await backend.acquire({ key: "k", ttlMs: 1_000 }).catch((error) => error);
        console.log(JSON.stringify({ code, message }));
      `,
      { env: { SYNCGUARD_STATE_DIR: directory } },
    );
    expect(result.stderr).toBe("");
    return JSON.parse(result.stdout);
  }

  test("directory in place of the default one is refused", async () => {
    chmodSync(folder.path, 0o755);
    const directory = join(newFolder(), "state");
    mkdirSync(directory, { mode: 0o700 });
    const { code, message } = await asNobody(undefined, directory);
    expect(code).toBe("InvalidArgument");
    expect(message).toContain("belongs to another user");
    expect(existsSync(join(directory, "locks.db"))).toBe(false);
  });

  test("file that cannot be written is an InvalidArgument and stays unchanged", async () => {
    chmodSync(folder.path, 0o755);
    const path = join(newFolder(), "locks.db");
    const backend = createSqliteBackend(path);
    const lock = await backend.acquire({ key: "k", ttlMs: 60_000 });
    await backend.close();
    chmodSync(path, 0o644);
    const before = readFileSync(path);
    const { code, message } = await asNobody(path, "");
    expect(code).toBe("InvalidArgument");
    expect(message).toContain(path);
    expect(readFileSync(path).equals(before)).toBe(true);
    const again = createSqliteBackend(path);
    expect((await again.release(lock)).ok).toBe(true);
    await again.close();
  });
});

describe("lock() without a backend", () => {
  test("protects across processes with different working directories and sessions", async () => {
    stateDirectory();
    const elsewhere = newFolder();
    const program = `
      const { lock } = await import(${JSON.stringify(`${JS}index.js`)});
      await lock(() => {}, { key: "k", acquisition: { maxRetries: 0 } }).catch((error) => console.log(error.code));
    `;
    const another = () =>
      run(program, { cwd: elsewhere, env: { XDG_RUNTIME_DIR: elsewhere, SYNCGUARD_URL: "" } });
    const inside = await lock(another, { key: "k", ttlMs: 60_000 });
    expect(inside).toMatchObject({ code: 0, stdout: "AcquisitionTimeout\n" });
    expect(await another()).toMatchObject({ code: 0, stdout: "" });
  });

  test("fences continue after all processes have ended", async () => {
    stateDirectory();
    const program = `
      const { lock } = await import(${JSON.stringify(`${JS}index.js`)});
      console.log(await lock(({ fence }) => fence, { key: "k" }));
    `;
    expect((await run(program)).stdout).toBe("000000000000001\n");
    expect((await run(program)).stdout).toBe("000000000000002\n");
  });

  test("SYNCGUARD_URL names another file", async () => {
    const path = newFolder();
    vi.stubEnv("SYNCGUARD_URL", `sqlite:${path}/my%20locks.db?durability=normal`);
    expect(await lock(({ fence }) => fence, { key: "k" })).toBe("000000000000001");
    expect(existsSync(join(path, "my locks.db"))).toBe(true);
  });

  test("a wrong SYNCGUARD_URL is reported, and no default file is created", async () => {
    const directory = stateDirectory();
    for (const url of ["mysql://user:secret@host/db", "sqlite://host/path", "no url"]) {
      vi.stubEnv("SYNCGUARD_URL", url);
      const error = await rejection(lock(() => {}, { key: "k" }));
      expect(error.code).toBe("InvalidArgument");
      expect(error.message).toContain("SYNCGUARD_URL");
      expect(error.message).not.toContain("secret");
    }
    expect(existsSync(directory)).toBe(false);
  });
});
