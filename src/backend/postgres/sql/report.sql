-- $1 lock table, $2 fence table, as quoted names. Returns facts about the server, and which rights on
-- the tables are missing. For a table that does not exist no missing rights are reported.
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
        AND has_function_privilege('pg_try_advisory_xact_lock(int4, int4)', 'EXECUTE'),
    has_function_privilege('pg_advisory_xact_lock(int4, int4)', 'EXECUTE')
        AND has_function_privilege('pg_try_advisory_xact_lock_shared(int8)', 'EXECUTE')
