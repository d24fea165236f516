-- Removes what is left of the record with lockId $2 of key $1, which was removed before. Like sweep.sql, it waits
-- for nobody.
DELETE FROM syncguard_locks_holders WHERE lock_id IN (
    SELECT lock_id FROM syncguard_locks_holders
    WHERE key = $1::text AND record_id = $2::text
    FOR UPDATE SKIP LOCKED
)
