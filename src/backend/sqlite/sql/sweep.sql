-- Removes those of the ?2 locks after the key ?1 that have expired, which is at ?3 or earlier. A record
-- stays while it has a live mark, which ends after ?4 and not later than ?5.
DELETE FROM syncguard_locks WHERE expires_at_ms <= ?3 AND key IN (
  SELECT key FROM syncguard_locks WHERE key > ?1 ORDER BY key LIMIT ?2
) AND NOT EXISTS (
  SELECT 1 FROM syncguard_holders
  WHERE record_id = syncguard_locks.lock_id AND slot IS NULL
    AND syncguard_holders.expires_at_ms > ?4 AND syncguard_holders.expires_at_ms <= ?5
)
