-- The columns are those of the PostgreSQL tables. WITHOUT ROWID: the key's tree is the table.
CREATE TABLE syncguard_locks (
  key TEXT PRIMARY KEY,
  lock_id TEXT NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  acquired_at_ms INTEGER NOT NULL,
  fence TEXT NOT NULL,
  user_key TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX syncguard_locks_lock_id ON syncguard_locks (lock_id);
CREATE INDEX syncguard_locks_expires_at_ms ON syncguard_locks (expires_at_ms);

CREATE TABLE syncguard_fence_counters (
  fence_key TEXT PRIMARY KEY,
  fence INTEGER NOT NULL DEFAULT 0,
  key_debug TEXT
) STRICT, WITHOUT ROWID;
