-- Removes the live lock of key $1, whoever holds it. If the lock is being acquired or extended at this
-- moment, the DELETE waits and reads the newest version of the row. It needs no advisory lock, like a
-- release: an acquire sees the row before or after. The fence counter stays.
DELETE FROM syncguard_locks
WHERE key = $1::text
    AND expires_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000
RETURNING notify_waiters, lock_id
