-- $1 key. Removes a lock that expired more than 2 seconds ago. An extend that comes first changes
-- the row, and the condition is asked again of the newest version: a live lock is never removed.
-- Fence counters are never removed.
DELETE FROM syncguard_locks
WHERE key = $1::text
    AND expires_at_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 2000
RETURNING notify_waiters
