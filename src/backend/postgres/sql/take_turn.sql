-- Waits for whoever acquires this key at this moment, never for the holder of the lock: the
-- advisory lock ends with the acquiring transaction. Every implementation of this format takes
-- it first, so between here and the commit nobody else acquires this key.
--
-- A statement of its own: in READ COMMITTED a statement sees what was committed when it started,
-- so one that waited here and then read the row would still see the row of before the wait.
--
-- $1 key, $2 how long the server may take for both statements, in ms. statement_timeout bounds each
-- statement: what this one has used is taken off for the next. statement_timestamp() is the time at
-- which the message with both of them arrived.
WITH turn AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtext($1::text))
)
SELECT set_config(
    'statement_timeout',
    greatest(1, $2::bigint - (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000)::bigint)::text,
    true
)
FROM turn
