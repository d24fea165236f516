// The backends of the command line tests: their arguments, and how a test inspects them.

import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { createBackend, hashKey } from "../fixtures/api.js";
import { setupSchema } from "../../js/postgres.js";

const unique = () => `t_${randomBytes(6).toString("hex")}`;

const KINDS = {
  redis: (prefix) => ({ url: process.env.REDIS_URL, prefix, options: { keyPrefix: prefix } }),
  postgres: async (prefix) => {
    const url = process.env.POSTGRES_URL;
    const options = { tableName: `${prefix}_locks`, fenceTableName: `${prefix}_fence_counters` };
    await setupSchema(url, options);
    return { url, prefix, options: { ...options, poolSize: 3 } };
  },
  firestore: (prefix) => ({
    url: `firestore://test?emulatorHost=${process.env.FIRESTORE_EMULATOR_HOST}`,
    prefix,
    options: { collection: `${prefix}_locks`, fenceCollection: `${prefix}_fence_counters` },
  }),
  sqlite: () => {
    const folder = mkdtempSync(join(tmpdir(), "syncguard-cli-"));
    afterAll(() => rmSync(folder, { recursive: true, force: true }));
    return { url: `sqlite:${join(folder, "locks.db")}?durability=normal` };
  },
};

export const BACKENDS = Object.keys(KINDS);

/** What the locks of each backend protect, in the words of the command line. */
export const PROTECTS = {
  redis: "all clients of this Redis server",
  postgres: "all clients of this PostgreSQL database",
  firestore: "all clients of this Firestore database",
  sqlite: "this host only",
};

/** `args` name the backend on a command line, and `backend` opens the same one in this process. */
export async function connect(kind) {
  const { url, prefix, options } = await KINDS[kind](unique());
  const backend = createBackend(url, options);
  afterAll(() => backend.close());
  const args = prefix === undefined ? [] : ["--prefix", prefix];
  return {
    backend,
    url,
    prefix,
    /** As the command shows it: without a user, a password and options. */
    store: url.replace(/\?.*/, "").replace(/\/\/.*@/, "//"),
    args: ["--url", url, ...args],
    key: () => `key-${unique()}`,
    hash: hashKey,
  };
}
