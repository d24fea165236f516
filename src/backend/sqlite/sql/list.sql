-- Returns the ?2 locks after the key ?1.
SELECT user_key, lock_id, expires_at_ms, acquired_at_ms, fence, key, * FROM syncguard_locks
WHERE key > ?1 ORDER BY key LIMIT ?2
