// The default file and lock() without a backend.

import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { rejection } from "../contracts/setup.js";
import { lock } from "../fixtures/api.js";
import { JS, run } from "../fixtures/node.js";
import { createSqliteBackend } from "../../js/sqlite.js";
import { testFolder } from "./folder.js";

const folder = testFolder();
const uid = process.geteuid();
let count = 0;

/** A temp directory of its own, for this process and those it starts. */
function tempDirectory() {
  const path = join(folder.path, `temp-${++count}`);
  mkdirSync(path);
  vi.stubEnv("TMPDIR", path);
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

describe("the default file", () => {
  test("is in a directory that only the user can enter", async () => {
    const temp = tempDirectory();
    expect(await attempt()).toBe(false);
    const directory = join(temp, `syncguard-${uid}`);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    expect(existsSync(join(directory, "locks.db"))).toBe(true);
  });

  test("is not used when its directory is a symbolic link", async () => {
    const temp = tempDirectory();
    const elsewhere = join(temp, "elsewhere");
    mkdirSync(elsewhere);
    symlinkSync(elsewhere, join(temp, `syncguard-${uid}`));
    const error = await rejection(attempt());
    expect(error.code).toBe("InvalidArgument");
    expect(error.message).toContain("symbolic link");
    expect(existsSync(join(elsewhere, "locks.db"))).toBe(false);
  });

  test("is not used when others can write to its directory", async () => {
    const temp = tempDirectory();
    const directory = join(temp, `syncguard-${uid}`);
    mkdirSync(directory);
    chmodSync(directory, 0o777);
    const error = await rejection(attempt());
    expect(error.code).toBe("InvalidArgument");
    expect(error.message).toContain("other users");
    expect(existsSync(join(directory, "locks.db"))).toBe(false);
  });
});

// Only root can make files of other users.
describe.runIf(uid === 0)("another user's", () => {
  const NOBODY = 65_534;

  /** The first operation in a process of an ordinary user. */
  async function asNobody(target, temp) {
    const result = await run(
      `
        import { createSqliteBackend } from ${JSON.stringify(`${JS}sqlite.js`)};
        process.setgid(${NOBODY});
        process.setuid(${NOBODY});
        const backend = createSqliteBackend(${JSON.stringify(target) ?? ""});
        const { code, message } = await backend.acquire({ key: "k", ttlMs: 1_000 }).catch((error) => error);
        console.log(JSON.stringify({ code, message }));
      `,
      { env: { TMPDIR: temp } },
    );
    expect(result.stderr).toBe("");
    return JSON.parse(result.stdout);
  }

  test("directory in place of the default one is not used", async () => {
    const temp = tempDirectory();
    chmodSync(folder.path, 0o755);
    const directory = join(temp, `syncguard-${NOBODY}`);
    mkdirSync(directory, { mode: 0o700 });
    const { code, message } = await asNobody(undefined, temp);
    expect(code).toBe("InvalidArgument");
    expect(message).toContain("belongs to another user");
    expect(existsSync(join(directory, "locks.db"))).toBe(false);
  });

  test("file that cannot be written is an InvalidArgument, and stays as it is", async () => {
    const temp = tempDirectory();
    chmodSync(folder.path, 0o755);
    const path = join(temp, "locks.db");
    const backend = createSqliteBackend(path);
    const lock = await backend.acquire({ key: "k", ttlMs: 60_000 });
    await backend.close();
    chmodSync(path, 0o644);
    const before = readFileSync(path);
    const { code, message } = await asNobody(path, temp);
    expect(code).toBe("InvalidArgument");
    expect(message).toContain(path);
    expect(readFileSync(path).equals(before)).toBe(true);
    const again = createSqliteBackend(path);
    expect((await again.release(lock)).ok).toBe(true);
    await again.close();
  });
});

describe("lock() without a backend", () => {
  test("protects across processes, wherever they run and whatever session they are in", async () => {
    const temp = tempDirectory();
    const program = `
      const { lock } = await import(${JSON.stringify(`${JS}index.js`)});
      await lock(() => {}, { key: "k", acquisition: { maxRetries: 0 } }).catch((error) => console.log(error.code));
    `;
    const elsewhere = () =>
      run(program, { cwd: temp, env: { XDG_RUNTIME_DIR: temp, SYNCGUARD_URL: "" } });
    const inside = await lock(elsewhere, { key: "k", ttlMs: 60_000 });
    expect(inside).toMatchObject({ code: 0, stdout: "AcquisitionTimeout\n" });
    expect(await elsewhere()).toMatchObject({ code: 0, stdout: "" });
  });

  test("fences go on after all processes have ended", async () => {
    tempDirectory();
    const program = `
      const { lock } = await import(${JSON.stringify(`${JS}index.js`)});
      console.log(await lock(({ fence }) => fence, { key: "k" }));
    `;
    expect((await run(program)).stdout).toBe("000000000000001\n");
    expect((await run(program)).stdout).toBe("000000000000002\n");
  });

  test("SYNCGUARD_URL names another file", async () => {
    const temp = tempDirectory();
    vi.stubEnv("SYNCGUARD_URL", `sqlite:${temp}/my%20locks.db?durability=normal`);
    expect(await lock(({ fence }) => fence, { key: "k" })).toBe("000000000000001");
    expect(existsSync(join(temp, "my locks.db"))).toBe(true);
  });

  test("a wrong SYNCGUARD_URL is reported, and no file is made instead", async () => {
    const temp = tempDirectory();
    for (const url of ["mysql://user:secret@host/db", "sqlite://host/path", "no url"]) {
      vi.stubEnv("SYNCGUARD_URL", url);
      const error = await rejection(lock(() => {}, { key: "k" }));
      expect(error.code).toBe("InvalidArgument");
      expect(error.message).toContain("SYNCGUARD_URL");
      expect(error.message).not.toContain("secret");
    }
    expect(existsSync(join(temp, `syncguard-${uid}`))).toBe(false);
  });
});
