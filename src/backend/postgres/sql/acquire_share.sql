-- Acquires a share of key $1, beside less than $5 other holders.
--
-- Parameters: $1 key, $2 lockId of the holder, $3 TTL in ms, $4 the key as the user gave it, $5 the limit,
-- $6 the lockId of the record if a new one is needed, $7 the holder's label or an empty text.
--
-- Returns one row, with 'shared', 'locked' or 'no fence left', then the fence, the expiry, and of what is in
-- the way the ms until it ends, its label and its lockId, then the lockId of the acquire, its slot and the
-- number of holders. No row if somebody else may be acquiring the key at this moment.
--
-- Runs after take_advisory_lock.sql and lock_row.sql in the same transaction. Whoever changes the holders of
-- a record has locked its row, so what this statement sees of them is still true when it ends.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
    WHERE pg_try_advisory_xact_lock_shared(hashtext($1::text))
        OR current_setting('syncguard.may_acquire', true) = 'true'
),
record AS MATERIALIZED (
    SELECT lock.* FROM clock, LATERAL (
        SELECT lock_id, expires_at_ms, to_jsonb(lock) ->> 'holder_label' AS label
        FROM syncguard_locks AS lock
        WHERE lock.key = $1::text LIMIT 1
    ) AS lock
),
-- Holders of an earlier record, which something else has replaced, have another record_id.
sharing AS MATERIALIZED (
    SELECT holder.* FROM record JOIN syncguard_locks_holders AS holder ON record_id = record.lock_id
    WHERE key = $1::text
),
live AS MATERIALIZED (
    SELECT lock_id, expires_at_ms, slot, lock_id || ' ' || holder_label AS label FROM clock, sharing
    WHERE slot IS NOT NULL AND expires_at_ms > now_ms - 1000
),
counted AS MATERIALIZED (
    SELECT count(*) AS holders, max(expires_at_ms) AS last_ms FROM live
),
mark AS MATERIALIZED (
    SELECT max(expires_at_ms) AS until_ms FROM clock, sharing
    WHERE slot IS NULL AND expires_at_ms > now_ms
),
-- What is in the way: an exclusive holder, the mark of a waiting writer, or of too many holders the one after
-- whose expiry there are few enough.
obstacle AS MATERIALIZED (
    SELECT expires_at_ms, expires_at_ms - now_ms + 1000 AS free_in_ms, lock_id AS holder_id, label
    FROM clock, counted, record
    WHERE holders = 0 AND expires_at_ms > now_ms - 1000
    UNION ALL
    SELECT until_ms, until_ms - now_ms, lock_id, NULL
    FROM clock, counted, mark, record
    WHERE until_ms IS NOT NULL AND (holders > 0 OR expires_at_ms <= now_ms - 1000)
    UNION ALL
    (
        SELECT live.expires_at_ms, live.expires_at_ms - now_ms + 1000, lock_id, label
        FROM clock, counted, mark, live
        WHERE until_ms IS NULL AND holders >= $5::bigint
        ORDER BY live.expires_at_ms
        OFFSET greatest(0, (SELECT holders FROM counted) - $5::bigint) LIMIT 1
    )
),
counter AS (
    INSERT INTO syncguard_fence_counters AS counted (fence_key, fence, key_debug)
    SELECT 'fence:' || $1::text, 1, $4::text FROM clock
    WHERE NOT EXISTS (SELECT FROM obstacle)
    ON CONFLICT (fence_key) DO UPDATE SET fence = counted.fence + 1
    WHERE counted.fence >= 0 AND counted.fence < 900000000000000
    RETURNING counted.fence
),
-- A record that has live holders is kept. Any other is replaced by one with a new lockId, which tells the
-- holders of the old one apart. The newest version of the row decides, as in acquire.sql.
stored AS (
    INSERT INTO syncguard_locks AS lock (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key)
    SELECT
        $1::text,
        coalesce((SELECT record.lock_id FROM record WHERE holders > 0), $6::text),
        greatest(now_ms + $3::bigint, last_ms),
        now_ms,
        lpad(counter.fence::text, 15, '0'),
        $4::text
    FROM clock, counted, counter
    ON CONFLICT (key) DO UPDATE SET
        lock_id = excluded.lock_id,
        expires_at_ms = excluded.expires_at_ms,
        acquired_at_ms = excluded.acquired_at_ms,
        fence = excluded.fence,
        user_key = excluded.user_key
    WHERE lock.lock_id = excluded.lock_id OR lock.expires_at_ms <= excluded.acquired_at_ms - 1000
    RETURNING lock.lock_id, lock.fence
),
slots AS MATERIALIZED (
    SELECT 0::bigint AS slot UNION ALL SELECT slot::bigint + 1 FROM live
),
added AS (
    INSERT INTO syncguard_locks_holders (
        lock_id, key, record_id, expires_at_ms, acquired_at_ms, fence, slot, holder_label
    )
    SELECT
        $2::text, $1::text, stored.lock_id, now_ms + $3::bigint, now_ms, fence,
        (SELECT min(slot) FROM slots WHERE slot >= 0 AND slot NOT IN (SELECT slot FROM live)),
        nullif($7::text, '')
    FROM clock, stored
    RETURNING fence, expires_at_ms, slot
),
-- The holders of this key that have expired, and the remains of earlier records.
removed AS (
    DELETE FROM syncguard_locks_holders
    WHERE key = $1::text AND EXISTS (SELECT FROM stored) AND lock_id NOT IN (SELECT lock_id FROM live)
)
SELECT
    'shared', fence, expires_at_ms, NULL::bigint,
    NULL AS holder_label, NULL AS holder_id, $2::text AS lock_id, slot, holders + 1
FROM added, counted
UNION ALL
SELECT 'locked', NULL, expires_at_ms, free_in_ms, label, holder_id, $2::text, NULL, NULL FROM obstacle
UNION ALL
SELECT
    CASE WHEN EXISTS (SELECT FROM counter) THEN 'locked' ELSE 'no fence left' END,
    NULL, NULL, NULL, NULL, NULL, $2::text, NULL, NULL
FROM clock
WHERE NOT EXISTS (SELECT FROM added) AND NOT EXISTS (SELECT FROM obstacle)
