// Locks in PostgreSQL.

export { createLock, createPostgresBackend, setupSchema } from "./targets/postgres/backend.js";
