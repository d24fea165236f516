// Runs @verrou/core on its SQLite store, over the fastest driver for Node.js.
import { Verrou } from "@verrou/core";
import { kyselyStore } from "@verrou/core/drivers/kysely";
import Database from "better-sqlite3";
import { Kysely, SqliteDialect } from "kysely";

/** Uses the same journal and durability as our backend. The default would be slower. */
export function openVerrou(path, synchronous) {
  const database = new Database(path);
  database.pragma("journal_mode = WAL");
  database.pragma(`synchronous = ${synchronous}`);
  const connection = new Kysely({ dialect: new SqliteDialect({ database }) });
  const driver = kyselyStore({ connection, autoCreateTable: true, tableName: "locks" });
  const verrou = new Verrou({ default: "sqlite", stores: { sqlite: { driver } } });
  return {
    async acquireRelease(key) {
      const lock = verrou.createLock(key, "30s");
      if (!(await lock.acquireImmediately())) throw new Error("not acquired");
      await lock.release();
    },
    close: () => connection.destroy(),
  };
}
