// A fenced write in PostgreSQL: the row stores the fence of its last writer, and the statement that
// writes refuses a lower one. The check and the write are one statement, so no other write can come
// between them.
//
//   POSTGRES_URL=postgres://… node examples/fenced-postgres.mjs daily
//
// To see a write refused, suspend the program while it works (Ctrl-Z) and run it again in another
// terminal. That one gets the lock as soon as the first one's has expired. Then resume the first (fg).

import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { lock } from "syncguard";
import { createPostgresBackend, setupSchema } from "syncguard/postgres";

const [name = "daily", workMs = "5000"] = process.argv.slice(2);
const pool = new pg.Pool({ connectionString: process.env.POSTGRES_URL });
pool.on("error", (error) => console.error(`PostgreSQL: ${error.message}`));
const backend = createPostgresBackend(pool);

async function writeReport(body, fence) {
  const { rowCount } = await pool.query(
    `INSERT INTO reports (name, body, fence) VALUES ($1, $2, $3)
     ON CONFLICT (name) DO UPDATE SET body = excluded.body, fence = excluded.fence
     WHERE reports.fence <= excluded.fence`,
    [name, body, fence],
  );
  if (rowCount === 0) throw new Error(`refused: a later holder has written, ${fence} is too old`);
  console.log(`${fence} wrote "${body}"`);
}

const createTable = () =>
  pool.query(`CREATE TABLE IF NOT EXISTS reports
    (name text PRIMARY KEY, body text NOT NULL, fence text COLLATE "C" NOT NULL)`);

try {
  await setupSchema(pool);
  await lock(backend, createTable, { key: "schema:reports" });
  await lock(
    backend,
    async ({ fence }) => {
      await writeReport("in progress", fence);
      // The work. If the process is suspended here, its lock expires. A check in this process cannot
      // prevent that, since the process may be suspended right after the check.
      await sleep(Number(workMs));
      await writeReport(`done by process ${process.pid}`, fence);
    },
    { key: `report:${name}`, ttlMs: 2_000, autoExtend: true, acquisition: { timeoutMs: 30_000 } },
  );
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await backend.close();
  await pool.end();
}
