-- Returns whether lock table $1 and fence table $2, both quoted names, exist with their indexes. If they
-- do, nothing is left to create, so a role that may not create anything can call setupSchema() too.
SELECT to_regclass($2::text) IS NOT NULL AND EXISTS (
    SELECT FROM pg_index
    JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
    WHERE indrelid = to_regclass($1::text)
        AND indisunique AND indisvalid AND indnkeyatts = 1 AND attname = 'lock_id'
) AND EXISTS (
    SELECT FROM pg_index
    JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
    WHERE indrelid = to_regclass($1::text) AND attname = 'expires_at_ms'
)
