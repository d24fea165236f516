-- Acquires of one key take this advisory lock one after the other. It is held until the acquiring
-- transaction ends, so nobody ever waits here for the holder of the lock itself. It is in the space
-- of two numbers, which applications seldom use, with a class of our own. lock_timeout bounds the
-- wait.
--
-- Other implementations of this format take an exclusive lock on hashtext(key), in the space of one
-- number. A shared one keeps them out for as long as this transaction lasts. It is only tried for:
-- applications use that space too, and may hold such a lock for as long as they like. acquire.sql
-- asks whether it was granted, and acquire_contested.sql tells the two apart if it was not.
--
-- A statement of its own: in READ COMMITTED a statement sees what was committed when it started,
-- so one that waited here and then read the row would still see the row of before the wait.
--
-- $1 key, $2 how long the server may take for both statements, in ms. statement_timeout bounds each
-- statement: what this one has used is taken off for the next. statement_timestamp() is the time at
-- which the message with both of them arrived.
WITH taken AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(advisory_lock_class, hashtext($1::text))
)
SELECT
    set_config(
        'statement_timeout',
        greatest(1, $2::bigint - (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000)::bigint)::text,
        true
    ),
    set_config('syncguard.alone', pg_try_advisory_xact_lock_shared(hashtext($1::text))::text, true)
FROM taken
