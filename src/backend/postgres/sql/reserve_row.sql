-- $1 key, $2 lockId, $3 the key as the user gave it. Inserts a row that has long expired if there is
-- none, for acquire_contested.sql. To others it looks like a lock that was never released.
INSERT INTO syncguard_locks (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key)
VALUES ($1::text, $2::text, 0, 0, '000000000000000', $3::text)
ON CONFLICT (key) DO NOTHING
