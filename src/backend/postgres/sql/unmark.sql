-- Removes mark $2 from key $1, and with it a record that was only kept for the mark. Runs after lock_row.sql in
-- the same transaction.
WITH unmarked AS (
    DELETE FROM syncguard_locks_holders
    WHERE lock_id = $2::text AND key = $1::text AND slot IS NULL
    RETURNING record_id, notify_waiters
)
DELETE FROM syncguard_locks
WHERE key = $1::text AND lock_id IN (SELECT record_id FROM unmarked)
    AND expires_at_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000
