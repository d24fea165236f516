-- Returns facts about the server, and which rights are missing on lock table $1, fence table $2 and the table
-- of holders $3, all quoted names. No rights are missing on a table that does not exist.
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
    has_function_privilege('pg_notify(text, text)', 'EXECUTE'),
    has_function_privilege('pg_advisory_xact_lock(int4, int4)', 'EXECUTE')
        AND has_function_privilege('pg_try_advisory_xact_lock(int4, int4)', 'EXECUTE')
        AND has_function_privilege('pg_try_advisory_xact_lock_shared(int8)', 'EXECUTE'),
    (
        SELECT coalesce(string_agg(wanted, ', '), '')
        FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted
        WHERE NOT has_table_privilege(to_regclass($3::text), wanted)
    )
