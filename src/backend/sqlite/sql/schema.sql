-- The columns are those of the PostgreSQL tables. There is no index on expires_at_ms, because every
-- acquire, extend and release would have to write one more page. See sweep.sql.
CREATE TABLE syncguard_locks (
  key TEXT PRIMARY KEY,
  lock_id TEXT NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  acquired_at_ms INTEGER NOT NULL,
  fence TEXT NOT NULL,
  user_key TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX syncguard_locks_lock_id ON syncguard_locks (lock_id);

CREATE TABLE syncguard_fence_counters (
  fence_key TEXT PRIMARY KEY,
  fence INTEGER NOT NULL DEFAULT 0,
  key_debug TEXT
) STRICT, WITHOUT ROWID;
