-- Allows the next statement of the transaction to acquire key $1 although another session holds the advisory
-- lock on hashtext(key). That is an application with a purpose of its own, or another implementation that is
-- acquiring the key at this moment. Runs after take_advisory_lock.sql and lock_row.sql in the same
-- transaction. reserve_row.sql must have run before, in a transaction of its own.
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
)
SELECT set_config(
    'syncguard.may_acquire',
    (current_setting('syncguard.row_is_locked') = 'true' AND NOT EXISTS (SELECT FROM acquiring))::text,
    true
)
