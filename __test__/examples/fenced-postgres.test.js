// Tests the fenced write in PostgreSQL.

import { randomUUID } from "node:crypto";
import { afterAll } from "vitest";
import { connect } from "../postgres/open.js";
import { fencedWrites } from "./fenced.js";

const sql = connect(process.env.POSTGRES_URL);
afterAll(() => sql.end());

fencedWrites("fenced-postgres", () => {
  const name = randomUUID();
  return {
    args: [name],
    stored: async () => ({
      ...(await sql`SELECT body, fence FROM reports WHERE name = ${name}`)[0],
    }),
  };
});
