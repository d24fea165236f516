-- The live holders of the keys in `wanted`: `share` has a row for each of them. A key that has a record
-- without holders is held exclusively, by another implementation whose lockId looks like that of a record.
clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
),
record AS MATERIALIZED (
    SELECT record.*, to_jsonb(record) ->> 'holder_label' AS label, now_ms, (
        SELECT count(*) FROM syncguard_locks_holders AS holder
        WHERE holder.key = record.key AND holder.record_id = record.lock_id
            AND slot IS NOT NULL AND holder.expires_at_ms > now_ms - 1000
    ) AS holders
    FROM clock, wanted JOIN syncguard_locks AS record USING (key)
),
share AS (
    SELECT record.key, user_key, holder.lock_id, holder.expires_at_ms, holder.acquired_at_ms, holder.fence,
        holder.lock_id || ' ' || holder.holder_label AS holder_label, slot, holders
    FROM record JOIN syncguard_locks_holders AS holder
        ON holder.key = record.key AND record_id = record.lock_id
    WHERE slot IS NOT NULL AND holder.expires_at_ms > now_ms - 1000
    UNION ALL
    SELECT key, user_key, lock_id, expires_at_ms, acquired_at_ms, fence, label, NULL, NULL
    FROM record WHERE holders = 0 AND expires_at_ms > now_ms - 1000
)
