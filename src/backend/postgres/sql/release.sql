-- Releases the locks with lockIds $1 in one transaction. $2: how long the server may take, in ms. See
-- release.sql. One release must not delay the others. So if a row is locked, the whole statement fails soon,
-- and each release is made alone.
WITH relaxed AS MATERIALIZED (
    SELECT
        set_config('synchronous_commit', 'off', true),
        set_config('lock_timeout', greatest(1, least(100, $2::bigint / 4))::text, true)
),
released AS (
    DELETE FROM syncguard_locks USING relaxed
    WHERE lock_id = ANY ($1::text[])
        AND expires_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000
    RETURNING lock_id, notify_waiters
)
SELECT
    CASE
        WHEN asked.lock_id IN (SELECT lock_id FROM released) THEN 'done'
        WHEN EXISTS (SELECT FROM syncguard_locks WHERE lock_id = asked.lock_id) THEN 'expired'
        ELSE 'not found'
    END,
    lock_id
FROM unnest($1::text[]) AS asked (lock_id)
