-- The tables of SyncGuard for PostgreSQL. setupSchema() and `syncguard schema --apply` run this. To run
-- it by hand: psql --single-transaction -f schema.sql
--
-- An application needs SELECT, INSERT, UPDATE and DELETE on these tables and nothing else.
CREATE TABLE IF NOT EXISTS syncguard_locks (
    key TEXT PRIMARY KEY,
    lock_id TEXT NOT NULL,
    expires_at_ms BIGINT NOT NULL,
    acquired_at_ms BIGINT NOT NULL,
    fence TEXT NOT NULL,
    user_key TEXT NOT NULL
);
-- release, extend and lookup find a lock by its lockId.
CREATE UNIQUE INDEX IF NOT EXISTS idx_syncguard_locks_lock_id ON syncguard_locks (lock_id);
-- For finding expired locks.
CREATE INDEX IF NOT EXISTS idx_syncguard_locks_expires ON syncguard_locks (expires_at_ms);

-- One row for each key that was ever locked. Never delete a row, because the fences of a key must never
-- start again. Free space in each page keeps the increments cheap (HOT updates).
CREATE TABLE IF NOT EXISTS syncguard_fence_counters (
    fence_key TEXT PRIMARY KEY,
    fence BIGINT NOT NULL DEFAULT 0,
    key_debug TEXT
) WITH (fillfactor = 70);

-- The holders of shared keys. They belong to the row of syncguard_locks whose lock_id is their record_id. If
-- there is no such row any more, they are remains. A row without a slot is the mark of a waiting writer.
CREATE TABLE IF NOT EXISTS syncguard_locks_holders (
    lock_id TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    record_id TEXT NOT NULL,
    expires_at_ms BIGINT NOT NULL,
    acquired_at_ms BIGINT NOT NULL,
    fence TEXT,
    slot INTEGER,
    holder_label TEXT
);
-- The holders of a key.
CREATE INDEX IF NOT EXISTS idx_syncguard_locks_holders_key ON syncguard_locks_holders (key, lock_id);
-- For finding the remains of holders that died.
CREATE INDEX IF NOT EXISTS idx_syncguard_locks_holders_expires ON syncguard_locks_holders (expires_at_ms);
