// The backends that the command is tried on: how it is told of them, and how a test looks into them.

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
    return { url, prefix, options: { ...options, poolSize: 2 } };
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

/** `args` name the backend on a command line, `backend` is the same one here. */
export async function connect(kind) {
  const { url, prefix, options } = await KINDS[kind](unique());
  const backend = createBackend(url, options);
  afterAll(() => backend.close());
  const args = prefix === undefined ? [] : ["--prefix", prefix];
  return {
    backend,
    url,
    args: ["--url", url, ...args],
    key: () => `key-${unique()}`,
    hash: hashKey,
  };
}
