-- Returns the live lock of key $1. One statement reads one version of the row, never half a change.
SELECT key, user_key, lock_id, expires_at_ms, acquired_at_ms, fence,
    to_jsonb(lock) ->> 'holder_label' AS holder_label
FROM syncguard_locks AS lock
WHERE key = $1::text
    AND expires_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000
