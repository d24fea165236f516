-- ?2 is now, ?3 the new expiry. A live lock expires after ?4. If the clock was set back, acquired_at_ms
-- would be in the future, and rebase.sql would take the lock for one that nobody extends.
UPDATE syncguard_locks SET
  expires_at_ms = ?3,
  acquired_at_ms = min(acquired_at_ms, ?2)
WHERE lock_id = ?1 AND expires_at_ms > ?4
