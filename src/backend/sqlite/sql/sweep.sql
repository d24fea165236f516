-- Of the ?2 locks that come after the key ?1, those that have expired (at ?3 or before).
DELETE FROM syncguard_locks WHERE expires_at_ms <= ?3 AND key IN (
  SELECT key FROM syncguard_locks WHERE key > ?1 ORDER BY key LIMIT ?2
)
