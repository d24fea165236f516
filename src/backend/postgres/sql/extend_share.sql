-- Extends the share with lockId $1 to a TTL of $2 ms. Runs after lock_record.sql in the same transaction. The
-- record expires with its last holder.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
),
own AS MATERIALIZED (
    SELECT holder.key, holder.record_id, holder.expires_at_ms > now_ms - 1000 AS is_live
    FROM clock, syncguard_locks_holders AS holder JOIN syncguard_locks AS record
        ON record.key = holder.key AND record.lock_id = holder.record_id
    WHERE holder.lock_id = $1::text AND holder.slot IS NOT NULL
),
extended AS (
    UPDATE syncguard_locks_holders SET expires_at_ms = now_ms + $2::bigint FROM clock
    WHERE lock_id = $1::text AND EXISTS (SELECT FROM own WHERE is_live)
    RETURNING expires_at_ms
),
others AS MATERIALIZED (
    SELECT max(holder.expires_at_ms) AS last_ms
    FROM clock, own JOIN syncguard_locks_holders AS holder USING (key, record_id)
    WHERE lock_id <> $1::text AND slot IS NOT NULL AND holder.expires_at_ms > now_ms - 1000
),
moved AS (
    UPDATE syncguard_locks AS record SET expires_at_ms = greatest(extended.expires_at_ms, last_ms)
    FROM own, extended, others
    WHERE record.key = own.key AND record.expires_at_ms <> greatest(extended.expires_at_ms, last_ms)
)
SELECT
    CASE
        WHEN EXISTS (SELECT FROM extended) THEN 'done'
        WHEN EXISTS (SELECT FROM own) THEN 'expired'
        ELSE 'not found'
    END,
    (SELECT expires_at_ms FROM extended)
