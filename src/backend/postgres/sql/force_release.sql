-- $1 key. One DELETE, as in release.sql, of whoever's live lock it finds: a lock that is taken or
-- extended at this moment is waited for and judged by its newest version. Like a release it needs
-- no advisory lock: acquirers see the row as it was before or after. The fence counter stays.
DELETE FROM syncguard_locks
WHERE key = $1::text
    AND expires_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000
RETURNING notify_waiters
