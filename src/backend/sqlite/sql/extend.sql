-- ?2 now, ?3 the new expiry, ?4 what is live expires after. A lock is never acquired after now,
-- also not after the clock was set back: rebase.sql relies on it.
UPDATE syncguard_locks SET
  expires_at_ms = ?3,
  acquired_at_ms = min(acquired_at_ms, ?2)
WHERE lock_id = ?1 AND expires_at_ms > ?4
