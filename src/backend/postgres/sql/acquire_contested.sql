-- Acquires a lock if it is free, although another session holds the advisory lock on hashtext(key). That is
-- an application with a purpose of its own, or another implementation that is acquiring the key at this
-- moment. Runs after take_advisory_lock.sql and lock_row.sql in the same transaction. reserve_row.sql must
-- have run before, in a transaction of its own. Parameters and result are those of acquire.sql.
--
-- Another implementation takes the advisory lock, locks the row if there is one (SELECT … FOR UPDATE),
-- reads it, and stores its own lock whatever the row is by then. If there is a row, this cannot go wrong:
-- it either waits for our lock on the row and then sees what we stored, or has locked the row before us. If
-- there is no row, it locks nothing and would overwrite what we store. So we must know whether a session
-- has looked for the row before the row existed. Such a session has a lock on the table until its
-- transaction ends. As the row was committed before we locked it, and we read pg_locks after that, we see
-- that lock.
--
-- A session that holds the advisory lock and has not touched the table is therefore harmless, now and
-- later.
WITH locks AS MATERIALIZED (
    SELECT * FROM pg_locks
    WHERE granted AND pid <> pg_backend_pid()
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
),
acquiring AS MATERIALIZED (
    SELECT FROM locks AS held JOIN locks AS touched USING (pid)
    WHERE held.locktype = 'advisory' AND held.mode = 'ExclusiveLock' AND held.objsubid = 1
        AND ((held.classid::bigint << 32) | held.objid::bigint) = hashtext($1::text)
        AND touched.locktype = 'relation' AND touched.relation = 'syncguard_locks'::regclass
),
clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
),
-- We hold the row's lock, so this is its newest version.
current AS MATERIALIZED (
    SELECT
        expires_at_ms,
        expires_at_ms - now_ms + 1000 AS free_in_ms,
        expires_at_ms > now_ms - 1000 AS is_live,
        lock_id,
        to_jsonb(lock) ->> 'holder_label' AS label
    FROM syncguard_locks AS lock, clock WHERE key = $1::text
),
free AS MATERIALIZED (
    SELECT FROM current WHERE NOT is_live AND NOT EXISTS (SELECT FROM acquiring)
),
counter AS (
    INSERT INTO syncguard_fence_counters AS counted (fence_key, fence, key_debug)
    SELECT 'fence:' || $1::text, 1, $4::text
    WHERE EXISTS (SELECT FROM free)
    ON CONFLICT (fence_key) DO UPDATE SET fence = counted.fence + 1
    WHERE counted.fence >= 0 AND counted.fence < 900000000000000
    RETURNING counted.fence
),
stored AS (
    UPDATE syncguard_locks AS lock SET
        lock_id = $2::text,
        expires_at_ms = now_ms + $3::bigint,
        acquired_at_ms = now_ms,
        fence = lpad(counter.fence::text, 15, '0'),
        user_key = $4::text
        /*label , holder_label = $2::text || ' ' || $5::text */
    FROM counter, clock
    WHERE key = $1::text
    RETURNING lock.fence, lock.expires_at_ms
)
SELECT
    CASE
        WHEN EXISTS (SELECT FROM current WHERE is_live) THEN 'locked'
        WHEN NOT EXISTS (SELECT FROM free) THEN 'contested'
        WHEN NOT EXISTS (SELECT FROM counter) THEN 'no fence left'
        ELSE 'acquired'
    END,
    (SELECT fence FROM stored),
    (SELECT expires_at_ms FROM stored UNION ALL SELECT expires_at_ms FROM current WHERE is_live),
    (SELECT free_in_ms FROM current WHERE is_live),
    (SELECT label FROM current WHERE is_live) AS holder_label,
    (SELECT lock_id FROM current WHERE is_live) AS holder_id
