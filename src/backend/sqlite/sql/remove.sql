DELETE FROM syncguard_locks WHERE lock_id = ?1 RETURNING expires_at_ms
