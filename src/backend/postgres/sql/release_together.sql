-- Several releases in one transaction. $1 lockIds. What has no row in the answer is asked for alone,
-- which tells why: see release.sql. Where a row is locked, all of it fails soon: one must not make
-- the others wait.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '100', true)
)
DELETE FROM syncguard_locks USING relaxed
WHERE lock_id = ANY ($1::text[])
    AND expires_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000
RETURNING 'done', lock_id, tell_waiters
