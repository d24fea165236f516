SELECT user_key, lock_id, expires_at_ms, acquired_at_ms, fence, * FROM syncguard_locks WHERE key = ?1
