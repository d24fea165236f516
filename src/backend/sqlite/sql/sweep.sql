-- Removes those of the ?2 locks after the key ?1 that have expired, which is at ?3 or earlier.
DELETE FROM syncguard_locks WHERE expires_at_ms <= ?3 AND key IN (
  SELECT key FROM syncguard_locks WHERE key > ?1 ORDER BY key LIMIT ?2
)
