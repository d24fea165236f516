-- Returns the live holder with lockId $1.
WITH wanted AS MATERIALIZED (
    SELECT key FROM syncguard_locks_holders WHERE lock_id = $1::text
),
live_shares
SELECT * FROM share WHERE lock_id = $1::text AND slot IS NOT NULL
