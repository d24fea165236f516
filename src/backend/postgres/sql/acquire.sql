-- Acquires a lock if it is free. Runs after take_advisory_lock.sql in the same transaction, with a snapshot
-- that was taken after the wait for the advisory lock.
--
-- Parameters: $1 key, $2 lockId, $3 TTL in ms, $4 the key as the user gave it, $5 the holder's label if
-- there are labels. The parts in /*label … */ belong to the statement only in that case.
--
-- Returns one of 'acquired', 'locked', 'no fence left' and 'contested' (nothing was done because another
-- implementation may be acquiring the key, see take_advisory_lock.sql), then the fence, the expiry, and
-- of another holder the ms until the lock expires, the label and the lockId.
--
-- The time is clock_timestamp() and not now(), which is the time before the wait for the advisory lock.
-- It is read once, so that liveness, acquired_at_ms and expires_at_ms agree.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
),
-- No other acquire can change the row now. An extend can, because it only locks the row. `stored` decides
-- that case on the row itself. The label is read from JSON because most tables have no such column.
held AS MATERIALIZED (
    SELECT
        expires_at_ms,
        expires_at_ms - now_ms + 1000 AS free_in_ms,
        lock_id,
        to_jsonb(lock) ->> 'holder_label' AS label
    FROM syncguard_locks AS lock, clock
    WHERE key = $1::text AND expires_at_ms > now_ms - 1000
),
-- One atomic upsert creates or increments the counter, so that no counter is created twice. It returns no
-- row at the end of the counter's range, and then no lock is stored.
counter AS (
    INSERT INTO syncguard_fence_counters AS counted (fence_key, fence, key_debug)
    SELECT 'fence:' || $1::text, 1, $4::text
    WHERE NOT EXISTS (SELECT FROM held) AND current_setting('syncguard.may_acquire') = 'true'
    ON CONFLICT (fence_key) DO UPDATE SET fence = counted.fence + 1
    WHERE counted.fence >= 0 AND counted.fence < 900000000000000
    RETURNING counted.fence
),
-- ON CONFLICT waits for the row's lock and reads its newest version, whatever the snapshot says. So a lock
-- that was extended at the last moment is not overwritten. The fence that was taken is skipped then.
stored AS (
    INSERT INTO syncguard_locks AS lock (
        key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key /*label , holder_label */
    )
    SELECT
        $1::text, $2::text, now_ms + $3::bigint, now_ms, lpad(counter.fence::text, 15, '0'), $4::text
        /*label , $2::text || ' ' || $5::text */
    FROM counter, clock
    ON CONFLICT (key) DO UPDATE SET
        lock_id = excluded.lock_id,
        expires_at_ms = excluded.expires_at_ms,
        acquired_at_ms = excluded.acquired_at_ms,
        fence = excluded.fence,
        user_key = excluded.user_key
        /*label , holder_label = excluded.holder_label */
    WHERE lock.expires_at_ms <= excluded.acquired_at_ms - 1000
    RETURNING lock.fence, lock.expires_at_ms
)
SELECT
    CASE
        WHEN EXISTS (SELECT FROM held) THEN 'locked'
        WHEN current_setting('syncguard.may_acquire') <> 'true' THEN 'contested'
        WHEN NOT EXISTS (SELECT FROM counter) THEN 'no fence left'
        WHEN NOT EXISTS (SELECT FROM stored) THEN 'locked'
        ELSE 'acquired'
    END,
    (SELECT fence FROM stored),
    (SELECT expires_at_ms FROM stored UNION ALL SELECT expires_at_ms FROM held),
    (SELECT free_in_ms FROM held),
    (SELECT label FROM held) AS holder_label,
    (SELECT lock_id FROM held) AS holder_id
