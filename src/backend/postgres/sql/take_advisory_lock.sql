-- Makes the acquires of key $1 wait for each other. $2: how long the server may take for this statement and
-- the next one, in ms.
--
-- The advisory lock is held until the transaction of the acquire ends, so nobody ever waits here for the
-- holder of the lock itself. It consists of two numbers, which applications seldom use, and the first one is
-- our own. lock_timeout limits the wait.
--
-- Other implementations of this format take an exclusive advisory lock on the single number hashtext(key). A
-- shared one keeps them out until this transaction ends. acquire.sql only tries for it, because applications
-- use single numbers too, and may hold such a lock for as long as they like. If it is not granted,
-- check_contested.sql finds out who holds it.
--
-- This is a statement of its own because in READ COMMITTED a statement sees what was committed when it
-- started. One that waits here and then reads the row would still see the row from before the wait.
--
-- statement_timeout limits each statement alone, so the time that this one has used is taken off for the
-- next one. statement_timestamp() is the time at which the message with both of them arrived.
WITH taken AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(advisory_lock_class, hashtext($1::text))
)
SELECT set_config(
    'statement_timeout',
    greatest(1, $2::bigint - (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000)::bigint)::text,
    true
)
FROM taken
