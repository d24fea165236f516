-- $1 lock table, $2 fence table, as quoted names. What the server is like, and which rights on the
-- tables are missing: none where a table is.
SELECT
    current_setting('server_version'),
    pg_is_in_recovery(),
    current_setting('fsync'),
    (SELECT count(*) FROM pg_stat_replication),
    to_regclass($1::text) IS NOT NULL AND to_regclass($2::text) IS NOT NULL,
    (
        SELECT coalesce(string_agg(wanted, ', '), '')
        FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted
        WHERE NOT has_table_privilege(to_regclass($1::text), wanted)
    ),
    (
        SELECT coalesce(string_agg(wanted, ', '), '')
        FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS wanted
        WHERE NOT has_table_privilege(to_regclass($2::text), wanted)
    ),
    has_function_privilege('pg_notify(text, text)', 'EXECUTE')
        AND has_function_privilege('pg_try_advisory_xact_lock(int4, int4)', 'EXECUTE')
