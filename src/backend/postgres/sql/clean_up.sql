-- Removes the lock of key $1 if it expired more than 2 seconds ago. If an extend changes the row first, the
-- condition is checked again on the newest version, so a live lock is never removed. Fence counters are
-- never removed.
DELETE FROM syncguard_locks
WHERE key = $1::text
    AND expires_at_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 2000
RETURNING notify_waiters, lock_id
