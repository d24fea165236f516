-- Runs right after take_turn.sql, in the same transaction, with a snapshot taken after the wait.
-- $1 key, $2 lockId, $3 TTL in ms, $4 the key as the user gave it. Returns what happened, the fence
-- if it was taken, the expiry, and in how many ms it is free if another holds it.
--
-- clock_timestamp() and not now(): now() is the time at which the transaction began, before it
-- waited for its turn. It is read once, so that liveness, acquired_at_ms and expires_at_ms agree.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
),
-- Acquirers cannot change the row now. An extend can: it takes the row's lock only. That case is
-- decided below, on the row itself.
held AS MATERIALIZED (
    SELECT expires_at_ms, expires_at_ms - now_ms + 1000 AS free_in_ms FROM syncguard_locks, clock
    WHERE key = $1::text AND expires_at_ms > now_ms - 1000
),
-- Made or incremented by one atomic upsert, so an absent counter cannot be made twice. At the end
-- of its range it returns nothing, and then no lock is stored.
counter AS (
    INSERT INTO syncguard_fence_counters AS counted (fence_key, fence, key_debug)
    SELECT 'fence:' || $1::text, 1, $4::text
    WHERE NOT EXISTS (SELECT FROM held)
    ON CONFLICT (fence_key) DO UPDATE SET fence = counted.fence + 1
    WHERE counted.fence >= 0 AND counted.fence < 900000000000000
    RETURNING counted.fence
),
-- ON CONFLICT waits for the row's lock and judges its newest version, whatever the snapshot says:
-- a lock that was extended in the last moment is not overwritten. Its fence is then skipped.
stored AS (
    INSERT INTO syncguard_locks AS lock (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key)
    SELECT $1::text, $2::text, now_ms + $3::bigint, now_ms, lpad(counter.fence::text, 15, '0'), $4::text
    FROM counter, clock
    ON CONFLICT (key) DO UPDATE SET
        lock_id = excluded.lock_id,
        expires_at_ms = excluded.expires_at_ms,
        acquired_at_ms = excluded.acquired_at_ms,
        fence = excluded.fence,
        user_key = excluded.user_key
    WHERE lock.expires_at_ms <= excluded.acquired_at_ms - 1000
    RETURNING lock.fence, lock.expires_at_ms
)
SELECT
    CASE
        WHEN EXISTS (SELECT FROM held) THEN 'locked'
        WHEN NOT EXISTS (SELECT FROM counter) THEN 'no fence left'
        WHEN NOT EXISTS (SELECT FROM stored) THEN 'locked'
        ELSE 'acquired'
    END,
    (SELECT fence FROM stored),
    (SELECT expires_at_ms FROM stored UNION ALL SELECT expires_at_ms FROM held),
    (SELECT free_in_ms FROM held)
