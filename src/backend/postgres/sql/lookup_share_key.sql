-- Returns the live holder of key $1 that expires last.
WITH wanted AS MATERIALIZED (SELECT $1::text AS key),
live_shares
SELECT * FROM share ORDER BY expires_at_ms DESC, lock_id LIMIT 1
