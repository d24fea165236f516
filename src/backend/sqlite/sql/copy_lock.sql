-- Keeps the one of two locks that lasts longer, so that nobody gets the key before both have ended.
INSERT INTO syncguard_locks (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (key) DO UPDATE SET
  lock_id = excluded.lock_id,
  expires_at_ms = excluded.expires_at_ms,
  acquired_at_ms = excluded.acquired_at_ms,
  fence = excluded.fence,
  user_key = excluded.user_key
WHERE excluded.expires_at_ms > syncguard_locks.expires_at_ms
