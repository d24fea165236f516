-- Inserts a row that expired long ago if key $1 has none, for check_contested.sql. $2: lockId, $3: the key
-- as the user gave it. To others the row looks like a lock that was never released.
INSERT INTO syncguard_locks (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key)
VALUES ($1::text, $2::text, 0, 0, '000000000000000', $3::text)
ON CONFLICT (key) DO NOTHING
