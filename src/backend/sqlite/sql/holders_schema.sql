-- The holders of shared records. record_id is the lock_id of their record in syncguard_locks, which nobody
-- holds. A program that does not know this table may remove or replace a record. Its holders' rows then
-- belong to nothing, and count no more.
--
-- A row without a slot is the mark of a waiting writer, until expires_at_ms. 0 if the writer has removed it.
CREATE TABLE IF NOT EXISTS syncguard_holders (
  record_id TEXT NOT NULL,
  lock_id TEXT NOT NULL,
  slot INTEGER,
  expires_at_ms INTEGER NOT NULL,
  acquired_at_ms INTEGER NOT NULL,
  fence TEXT,
  holder_label TEXT,
  PRIMARY KEY (record_id, lock_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS syncguard_holders_lock_id ON syncguard_holders (lock_id);
