-- Acquires the locks that are free, of one key or of several different ones.
--
-- Parameters: $1 keys, $2 lockIds, $3 TTLs in ms, $4 the keys as the users gave them, $5 how long the
-- server may take, in ms, $6 the holder's label if there are labels. The parts in /*label … */ belong to the
-- statement only in that case.
--
-- Returns for each acquire one of 'acquired', 'locked' and 'no fence left', then the fence, the expiry, and
-- of another holder the ms until its lock expires, its label and its lockId, and last the lockId of the
-- acquire. An acquire that has no row in the answer was not done, because somebody else may be acquiring the
-- key at this moment. See take_advisory_lock.sql.
--
-- One acquire must not delay the others. Therefore the advisory locks are only tried for, and the whole
-- statement fails soon if a row is locked. An acquire that is made alone has waited for its turn before, in
-- take_advisory_lock.sql.
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
        AS asked (key, lock_id, ttl_ms, user_key)
    WHERE pg_try_advisory_xact_lock(advisory_lock_class, hashtext(key))
        AND (
            pg_try_advisory_xact_lock_shared(hashtext(key))
            OR current_setting('syncguard.may_acquire', true) = 'true'
        )
),
-- The time is clock_timestamp() and not now(), which is the time before any wait for a lock. It is read
-- once, so that liveness, acquired_at_ms and expires_at_ms agree.
clock AS MATERIALIZED (
    SELECT
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms,
        set_config('lock_timeout', greatest(1, least(100, $5::bigint / 4))::text, true)
),
-- Without take_advisory_lock.sql the snapshot is older than the advisory locks, so this may be an older
-- version of a row. An extend can also change the row now, because it only locks the row. `stored` decides
-- both cases on the row itself.
--
-- With LIMIT each key is looked up in the index, whatever the planner assumes about the tables. The label is
-- read from JSON because most tables have no such column.
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
-- One atomic upsert creates or increments the counter, so that no counter is created twice. It returns no
-- row at the end of the counter's range, and then no lock is stored.
counter AS (
    INSERT INTO syncguard_fence_counters AS counted (fence_key, fence, key_debug)
    SELECT 'fence:' || key, 1, user_key FROM clock, wanted
    WHERE lock_id NOT IN (SELECT lock_id FROM held)
    ON CONFLICT (fence_key) DO UPDATE SET fence = counted.fence + 1
    WHERE counted.fence >= 0 AND counted.fence < 900000000000000
    RETURNING counted.fence_key, counted.fence
),
-- ON CONFLICT waits for the row's lock and reads its newest version, whatever the snapshot says. So a lock
-- that was stored or extended at the last moment is not overwritten. The fence that was taken is skipped
-- then.
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
UNION ALL
SELECT
    CASE
        WHEN 'fence:' || key IN (SELECT fence_key FROM counter) THEN 'locked'
        ELSE 'no fence left'
    END,
    NULL, NULL, NULL, NULL, NULL, lock_id
FROM wanted
WHERE lock_id NOT IN (SELECT lock_id FROM stored UNION ALL SELECT lock_id FROM held)
