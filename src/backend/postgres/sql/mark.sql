-- Leaves mark $2 of a waiting writer in the shared record of key $1 for $3 ms, if the record has live holders,
-- or renews it. The last mark counts, so there is only one. Runs after lock_row.sql in the same transaction.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
),
record AS MATERIALIZED (
    SELECT record.lock_id, now_ms FROM clock, syncguard_locks AS record
    WHERE record.key = $1::text AND EXISTS (
        SELECT FROM syncguard_locks_holders AS holder
        WHERE holder.key = record.key AND record_id = record.lock_id
            AND slot IS NOT NULL AND holder.expires_at_ms > now_ms - 1000
    )
),
left_before AS (
    DELETE FROM syncguard_locks_holders
    WHERE key = $1::text AND slot IS NULL AND lock_id <> $2::text AND EXISTS (SELECT FROM record)
)
INSERT INTO syncguard_locks_holders (lock_id, key, record_id, expires_at_ms, acquired_at_ms)
SELECT $2::text, $1::text, lock_id, now_ms + $3::bigint, now_ms FROM record
ON CONFLICT (lock_id) DO UPDATE SET
    record_id = excluded.record_id,
    expires_at_ms = excluded.expires_at_ms
