-- Acquires several locks of different keys in one transaction. See take_advisory_lock.sql and acquire.sql
-- for each step.
--
-- Parameters: $1 keys, $2 lockIds, $3 TTLs in ms, $4 the keys as the users gave them, $5 how long the
-- server may take, in ms, $6 the holder's label if there are labels. Returns the columns of acquire.sql and
-- the lockId of the acquire. One that has no row in the answer was not done and is made alone.
--
-- One acquire must not delay the others. Therefore:
-- - A key that another session is acquiring is left out. So is a key whose counter is at its end.
-- - The advisory locks are taken after the snapshot, which may show an older version of a row. `stored`
--   decides on the row itself, as it does when an extend comes in between.
-- - If a row is locked, the whole statement fails soon.
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
        AS asked (key, lock_id, ttl_ms, user_key)
    WHERE pg_try_advisory_xact_lock(advisory_lock_class, hashtext(key))
        AND pg_try_advisory_xact_lock_shared(hashtext(key))
),
clock AS MATERIALIZED (
    SELECT
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms,
        set_config('lock_timeout', greatest(1, least(100, $5::bigint / 4))::text, true)
),
-- With LIMIT each key is looked up in the index, whatever the planner assumes about the tables.
held AS MATERIALIZED (
    SELECT
        wanted.lock_id,
        lock.expires_at_ms,
        lock.expires_at_ms - now_ms + 1000 AS free_in_ms,
        label,
        lock.lock_id AS holder_id
    FROM clock, wanted, LATERAL (
        SELECT lock_id, expires_at_ms, to_jsonb(lock) ->> 'holder_label' AS label
        FROM syncguard_locks AS lock
        WHERE lock.key = wanted.key LIMIT 1
    ) AS lock
    WHERE lock.expires_at_ms > now_ms - 1000
),
counter AS (
    INSERT INTO syncguard_fence_counters AS counted (fence_key, fence, key_debug)
    SELECT 'fence:' || key, 1, user_key FROM clock, wanted
    WHERE lock_id NOT IN (SELECT lock_id FROM held)
    ON CONFLICT (fence_key) DO UPDATE SET fence = counted.fence + 1
    WHERE counted.fence >= 0 AND counted.fence < 900000000000000
    RETURNING counted.fence_key, counted.fence
),
stored AS (
    INSERT INTO syncguard_locks AS lock (
        key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key /*label , holder_label */
    )
    SELECT
        key, lock_id, now_ms + ttl_ms, now_ms, lpad(counter.fence::text, 15, '0'), user_key
        /*label , lock_id || ' ' || $6::text */
    FROM clock, counter JOIN wanted ON fence_key = 'fence:' || key
    ON CONFLICT (key) DO UPDATE SET
        lock_id = excluded.lock_id,
        expires_at_ms = excluded.expires_at_ms,
        acquired_at_ms = excluded.acquired_at_ms,
        fence = excluded.fence,
        user_key = excluded.user_key
        /*label , holder_label = excluded.holder_label */
    WHERE lock.expires_at_ms <= excluded.acquired_at_ms - 1000
    RETURNING lock.lock_id, lock.fence, lock.expires_at_ms
)
SELECT
    'acquired', fence, expires_at_ms, NULL::bigint,
    NULL AS holder_label, NULL AS holder_id, lock_id
FROM stored
UNION ALL
SELECT 'locked', NULL, expires_at_ms, free_in_ms, label, holder_id, lock_id FROM held
