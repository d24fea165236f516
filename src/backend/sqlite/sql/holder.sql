SELECT expires_at_ms, acquired_at_ms, lock_id, fence,
  EXISTS (SELECT 1 FROM syncguard_holders WHERE record_id = syncguard_locks.lock_id),
  *
FROM syncguard_locks WHERE key = ?1
