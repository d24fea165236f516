-- The expression that a DELETE of a lock returns. It notifies the waiters of the key if there are any.
--
-- NOTIFY takes a lock on the whole server at commit, so it is left out if nobody listens. A process that
-- waits holds a shared advisory lock as a sign, which vanishes with its session. If this transaction gets
-- the exclusive one, nobody waits, and nobody can give a sign before the transaction ends. Whoever gives one
-- later finds the lock removed. The first number of these advisory locks is the table's oid, so they differ
-- from those of take_advisory_lock.sql. If two keys have the same hash, a waiter makes one needless attempt.
CASE WHEN NOT pg_try_advisory_xact_lock('syncguard_locks'::regclass::int4, hashtext(key))
    THEN pg_notify('syncguard_' || 'syncguard_locks'::regclass::oid, hashtext(key)::text)
END
