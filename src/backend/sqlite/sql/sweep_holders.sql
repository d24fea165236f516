-- Removes those of the ?3 rows after (?1, ?2) whose record is gone.
DELETE FROM syncguard_holders
WHERE (record_id, lock_id) IN (
  SELECT record_id, lock_id FROM syncguard_holders
  WHERE (record_id, lock_id) > (?1, ?2) ORDER BY record_id, lock_id LIMIT ?3
) AND NOT EXISTS (SELECT 1 FROM syncguard_locks WHERE syncguard_locks.lock_id = record_id)
