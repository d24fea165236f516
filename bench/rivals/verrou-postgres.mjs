// Runs @verrou/core on its PostgreSQL store, over pg.
import { Verrou } from "@verrou/core";
import { kyselyStore } from "@verrou/core/drivers/kysely";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";

export function openVerrou(connectionString, max) {
  const pool = new pg.Pool({ connectionString, max });
  const connection = new Kysely({ dialect: new PostgresDialect({ pool }) });
  const driver = kyselyStore({ connection, autoCreateTable: true, tableName: "verrou" });
  const verrou = new Verrou({ default: "postgres", stores: { postgres: { driver } } });
  return {
    async acquireRelease(key) {
      const lock = verrou.createLock(key, "30s");
      if (!(await lock.acquireImmediately())) throw new Error("not acquired");
      await lock.release();
    },
    runUnderLock: (key, fn) => verrou.createLock(key, "30s").run(fn),
    close: () => connection.destroy(),
  };
}
