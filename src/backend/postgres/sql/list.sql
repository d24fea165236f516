-- $1 the key after which to go on, $2 how many at most. Walks along the primary key: a page costs
-- the same wherever it is, and what is live all the time is seen once. The clock is read once.
SELECT key, user_key, lock_id, expires_at_ms, acquired_at_ms, fence,
    to_jsonb(lock) ->> 'holder_label' AS holder_label
FROM syncguard_locks AS lock
WHERE key > $1::text
    AND expires_at_ms > (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000)
ORDER BY key
LIMIT $2::bigint
