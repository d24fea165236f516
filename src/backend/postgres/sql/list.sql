-- Returns up to $2 live locks with keys after $1. It follows the primary key, so each page costs the same,
-- and a lock that is live all the time is listed once. The clock is read once.
SELECT key, user_key, lock_id, expires_at_ms, acquired_at_ms, fence,
    to_jsonb(lock) ->> 'holder_label' AS holder_label
FROM syncguard_locks AS lock
WHERE key > $1::text
    AND expires_at_ms > (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000)
ORDER BY key
LIMIT $2::bigint
