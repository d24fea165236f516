-- acquire.sql, with the holder's label.
INSERT INTO syncguard_locks (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key, holder_label)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (key) DO UPDATE SET
  lock_id = excluded.lock_id,
  expires_at_ms = excluded.expires_at_ms,
  acquired_at_ms = excluded.acquired_at_ms,
  fence = excluded.fence,
  user_key = excluded.user_key,
  holder_label = excluded.holder_label
