-- Locks the row of key $1. Runs before acquire_contested.sql in the same transaction.
SELECT FROM syncguard_locks WHERE key = $1::text FOR UPDATE
