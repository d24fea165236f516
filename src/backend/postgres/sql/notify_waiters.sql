-- What a DELETE of a lock returns: it notifies those who wait for the key, if there are any.
--
-- NOTIFY takes a lock of the whole server when it commits, so it is left out where nobody listens.
-- A process that waits holds a shared advisory lock as a sign, which vanishes with its session. If
-- this transaction gets the exclusive one, nobody waits, and nobody can give a sign before the
-- transaction ends: whoever comes then finds the lock removed. The class of these advisory locks is
-- the table, so that they differ from that of take_advisory_lock.sql. Keys with the same hash cause
-- a needless attempt, no more.
CASE WHEN NOT pg_try_advisory_xact_lock('syncguard_locks'::regclass::int4, hashtext(key))
    THEN pg_notify('syncguard_' || 'syncguard_locks'::regclass::oid, hashtext(key)::text)
END
