-- Returns the last of the ?2 locks after the key ?1. No row if there are fewer.
SELECT key FROM syncguard_locks WHERE key > ?1 ORDER BY key LIMIT 1 OFFSET ?2 - 1
