DELETE FROM syncguard_locks WHERE key = ?1 RETURNING expires_at_ms, lock_id
