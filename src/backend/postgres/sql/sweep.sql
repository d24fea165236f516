-- Removes holders and marks that expired more than a minute ago. A holder that died leaves one, if its key is
-- not shared again.
--
-- They count nowhere, so this may run at any time. It waits for nobody, and therefore cannot be a part of a
-- deadlock.
DELETE FROM syncguard_locks_holders WHERE lock_id IN (
    SELECT lock_id FROM syncguard_locks_holders
    WHERE expires_at_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 60000
    ORDER BY expires_at_ms LIMIT 1000
    FOR UPDATE SKIP LOCKED
)
