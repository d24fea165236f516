-- Returns whether lock table $1 and fence table $2 exist with their indexes, whether the table of holders $3
-- does, and whether the lock table has the column for labels. All are quoted names. If nothing is left to
-- create, a role that may not create anything can call setupSchema() too.
WITH indexed AS MATERIALIZED (
    SELECT indrelid, attname, indisunique AND indisvalid AND indnkeyatts = 1 AS is_unique
    FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
    WHERE indrelid IN (to_regclass($1::text), to_regclass($3::text))
)
SELECT
    to_regclass($2::text) IS NOT NULL
        AND EXISTS (SELECT FROM indexed WHERE indrelid = to_regclass($1::text) AND attname = 'lock_id' AND is_unique)
        AND EXISTS (SELECT FROM indexed WHERE indrelid = to_regclass($1::text) AND attname = 'expires_at_ms'),
    EXISTS (SELECT FROM indexed WHERE indrelid = to_regclass($3::text) AND attname = 'lock_id' AND is_unique)
        AND EXISTS (SELECT FROM indexed WHERE indrelid = to_regclass($3::text) AND attname = 'key')
        AND EXISTS (SELECT FROM indexed WHERE indrelid = to_regclass($3::text) AND attname = 'expires_at_ms'),
    EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = to_regclass($1::text) AND attname = 'holder_label' AND NOT attisdropped
    )
