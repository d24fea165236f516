-- Returns the last of the ?3 rows after (?1, ?2). No row if there are fewer.
SELECT record_id, lock_id FROM syncguard_holders
WHERE (record_id, lock_id) > (?1, ?2) ORDER BY record_id, lock_id LIMIT 1 OFFSET ?3 - 1
