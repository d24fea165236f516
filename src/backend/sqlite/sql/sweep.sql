DELETE FROM syncguard_locks WHERE key IN (
  SELECT key FROM syncguard_locks WHERE expires_at_ms <= ?1 ORDER BY expires_at_ms LIMIT ?2
)
