-- Runs right after take_advisory_lock.sql, in the same transaction, with a snapshot taken after the wait.
-- $1 key, $2 lockId, $3 TTL in ms, $4 the key as the user gave it, $5 the holder's label, if it has
-- one: what stands in /*label … */ is only a part of the statement then. Returns what happened, the
-- fence if it was taken, the expiry, and, if another holds it, in how many ms it is free and the
-- holder's label. 'contested': nothing was done, as another implementation may be acquiring
-- it. take_advisory_lock.sql says more.
--
-- clock_timestamp() and not now(): now() is the time at which the transaction began, before it
-- waited for the advisory lock. It is read once, so that liveness, acquired_at_ms and expires_at_ms agree.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
),
-- Acquirers cannot change the row now. An extend can: it takes the row's lock only. That case is
-- decided below, on the row itself. A label belongs to the lockId that it starts with. As a field of
-- JSON it may be missing: most tables have no such column.
held AS MATERIALIZED (
    SELECT
        expires_at_ms,
        expires_at_ms - now_ms + 1000 AS free_in_ms,
        CASE
            WHEN strpos(to_jsonb(lock) ->> 'holder_label', lock.lock_id || ' ') = 1
            THEN substr(to_jsonb(lock) ->> 'holder_label', length(lock.lock_id) + 2)
        END AS label
    FROM syncguard_locks AS lock, clock
    WHERE key = $1::text AND expires_at_ms > now_ms - 1000
),
-- Made or incremented by one atomic upsert, so an absent counter cannot be made twice. At the end
-- of its range it returns nothing, and then no lock is stored.
counter AS (
    INSERT INTO syncguard_fence_counters AS counted (fence_key, fence, key_debug)
    SELECT 'fence:' || $1::text, 1, $4::text
    WHERE NOT EXISTS (SELECT FROM held) AND current_setting('syncguard.alone') = 'true'
    ON CONFLICT (fence_key) DO UPDATE SET fence = counted.fence + 1
    WHERE counted.fence >= 0 AND counted.fence < 900000000000000
    RETURNING counted.fence
),
-- ON CONFLICT waits for the row's lock and judges its newest version, whatever the snapshot says:
-- a lock that was extended in the last moment is not overwritten. Its fence is then skipped.
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
        WHEN current_setting('syncguard.alone') <> 'true' THEN 'contested'
        WHEN NOT EXISTS (SELECT FROM counter) THEN 'no fence left'
        WHEN NOT EXISTS (SELECT FROM stored) THEN 'locked'
        ELSE 'acquired'
    END,
    (SELECT fence FROM stored),
    (SELECT expires_at_ms FROM stored UNION ALL SELECT expires_at_ms FROM held),
    (SELECT free_in_ms FROM held),
    (SELECT label FROM held) AS holder_label
