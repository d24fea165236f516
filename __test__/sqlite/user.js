// A user with separate home and temp directories, for processes that a test starts. In these processes
// libnss_wrapper.so replaces the C library's user database.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { JS, run } from "../fixtures/node.js";

/** The directory of the default file below the home directory. */
export const STATE = ".local/state/syncguard";
const PREVIOUS = `syncguard-${process.geteuid?.()}`;

/**
 * @param {string} folder an existing folder, for the directories of this user
 * @param {{ home?: string }} [options] the home directory in the user database. Default: a directory in `folder`
 */
export function makeUser(folder, { home = join(folder, "home") } = {}) {
  const temp = join(folder, "temp");
  for (const path of [join(folder, "home"), temp]) mkdirSync(path, { recursive: true });
  const passwd = join(folder, "passwd");
  const group = join(folder, "group");
  writeFileSync(passwd, `tester:x:${process.geteuid()}:${process.getegid()}::${home}:/bin/sh\n`);
  writeFileSync(group, `tester:x:${process.getegid()}:\n`);
  const env = {
    LD_PRELOAD: "libnss_wrapper.so",
    NSS_WRAPPER_PASSWD: passwd,
    NSS_WRAPPER_GROUP: group,
    TMPDIR: temp,
    SYNCGUARD_URL: "",
    SYNCGUARD_STATE_DIR: "",
  };
  return {
    home,
    temp,
    env,
    /** The path of the default file. */
    file: join(home, STATE, "locks.db"),
    /** The path of the default file of the previous version. */
    previousFile: join(temp, PREVIOUS, "locks.db"),
    /** Runs a program that has `backend`, and returns what it sends to `print`. */
    async start(program, { env: more = {}, target = "" } = {}) {
      const source = `
        import { lock, diagnose } from ${JSON.stringify(`${JS}index.js`)};
        import { createSqliteBackend } from ${JSON.stringify(`${JS}sqlite.js`)};
        const backend = createSqliteBackend(${target});
        const print = (value) => console.log(JSON.stringify(value));
        ${program}
        await backend.close();
      `;
      const { stdout, stderr, code } = await run(source, { env: { ...env, ...more } });
      if (code !== 0 || stderr !== "") throw new Error(`${code}: ${stderr}`);
      return JSON.parse(stdout);
    },
  };
}

/** Prints the result of an attempt. */
export const ATTEMPT = `
  const { ok, fence, code, message } = await backend
    .acquire({ key: "k", ttlMs: 60_000 })
    .catch((error) => error);
  print({ ok, fence, code, message });
`;
