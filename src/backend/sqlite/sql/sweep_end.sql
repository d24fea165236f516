-- The last of the ?2 locks that come after the key ?1; no row when there are fewer.
SELECT key FROM syncguard_locks WHERE key > ?1 ORDER BY key LIMIT 1 OFFSET ?2 - 1
