-- Waits for whoever acquires this key at this moment, never for the holder of the lock: the
-- advisory lock ends with the acquiring transaction. Every implementation of this format takes
-- it first, so between here and the commit nobody else acquires this key.
--
-- A statement of its own: in READ COMMITTED a statement sees what was committed when it started,
-- so one that waited here and then read the row would still see the row of before the wait.
SELECT pg_advisory_xact_lock(hashtext($1::text))
