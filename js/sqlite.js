// Locks in a SQLite file: one host, any number of processes.

export { createLock, createSqliteBackend } from "./targets/sqlite/backend.js";
