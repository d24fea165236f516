-- The lock seems to be of the future (?2 is now): the clock was set back. It keeps its full length, from now.
UPDATE syncguard_locks SET
  expires_at_ms = ?2 + (expires_at_ms - acquired_at_ms),
  acquired_at_ms = ?2
WHERE key = ?1
RETURNING expires_at_ms
