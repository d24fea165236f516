// The lock manager on every kind of store behaves as the standard says.

import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, test } from "vitest";
import { createMemoryBackend } from "../../js/memory.js";
import { createLockManager } from "../../js/web-locks.js";
import { collections, open as openFirestore } from "../firestore/open.js";
import { open as openPostgres, tables } from "../postgres/open.js";
import { open as openRedis, prefix } from "../redis/open.js";
import { testFolder } from "../sqlite/folder.js";
import { open as openSqlite } from "../sqlite/open.js";
import { STANDARD } from "./web-locks/standard.js";

// Uses REDIS_URL, POSTGRES_URL and FIRESTORE_EMULATOR_HOST.
const folder = testFolder();
const STORES = {
  memory: () => createMemoryBackend(),
  sqlite: () => openSqlite({ path: folder.file() }),
  redis: () => openRedis({ keyPrefix: prefix() }),
  postgres: () => openPostgres(tables()),
  firestore: () => openFirestore(collections()),
};

describe.each(Object.entries(STORES))("%s", (_, open) => {
  let backend, locks;
  beforeAll(async () => {
    backend = await open();
    locks = createLockManager(backend);
  });
  afterAll(() => backend.close());

  describe.each(Object.entries(STANDARD))("%s", (_, behaviours) => {
    test.each(Object.entries(behaviours))("%s", (_, behaviour) => behaviour(locks, randomUUID()));
  });
});
