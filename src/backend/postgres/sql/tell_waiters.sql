-- What a DELETE of a lock returns: it tells those who wait for the key, if there are any.
--
-- NOTIFY takes a lock of the whole server when it commits, so it is left out where nobody listens.
-- Who waits holds a shared advisory lock as a sign; it vanishes with its session. If the exclusive
-- one can be had there is none, and nobody can give one before this transaction ends: whoever comes
-- then sees the lock gone. Two numbers, the table and a hash of the key, are another space than the
-- one number of take_turn.sql. Keys that share a hash cause a needless look, no more.
CASE WHEN NOT pg_try_advisory_xact_lock('syncguard_locks'::regclass::int4, hashtext(key))
    THEN pg_notify('syncguard_' || 'syncguard_locks'::regclass::oid, hashtext(key)::text)
END
