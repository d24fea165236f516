-- The lock was acquired in the future (?2 is now), because the clock was set back since. It gets its full
-- length again, from now on.
UPDATE syncguard_locks SET
  expires_at_ms = ?2 + (expires_at_ms - acquired_at_ms),
  acquired_at_ms = ?2
WHERE key = ?1
RETURNING expires_at_ms
