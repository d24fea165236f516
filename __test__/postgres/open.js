// Opens backends on the PostgreSQL server of the test run or on another one.

import { randomBytes } from "node:crypto";
import postgres from "postgres";
import { createPostgresBackend, setupSchema } from "../../js/postgres.js";

/** Tables that nobody else uses. */
export function tables(namespace = `t_${randomBytes(6).toString("hex")}`) {
  return { tableName: `${namespace}_locks`, fenceTableName: `${namespace}_fences` };
}

/** Also what the processes of a stress run call. Small pools: many tests share one server. */
export async function open({ url = process.env.POSTGRES_URL, ...options } = {}) {
  const { tableName, fenceTableName, holderLabel } = options;
  await setupSchema(url, { tableName, fenceTableName, holderLabel });
  return createPostgresBackend(url, { poolSize: 5, ...options });
}

/** postgres.js, as a second way in. */
export function connect(url = process.env.POSTGRES_URL, options = {}) {
  return postgres(url, { max: 4, onnotice: () => {}, ...options });
}
