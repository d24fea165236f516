-- A record expires with its last holder. As in extend.sql, its time must not stay in the future.
UPDATE syncguard_locks SET expires_at_ms = ?2, acquired_at_ms = min(acquired_at_ms, ?3) WHERE lock_id = ?1
