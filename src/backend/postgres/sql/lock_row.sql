-- Locks the row of key $1, and remembers whether there is one, until the transaction ends.
WITH locked AS MATERIALIZED (
    SELECT FROM syncguard_locks WHERE key = $1::text FOR UPDATE
)
SELECT set_config('syncguard.row_is_locked', EXISTS (SELECT FROM locked)::text, true)
