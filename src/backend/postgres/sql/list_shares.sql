-- Returns up to $3 live holders of keys $1, in the order of their keys and lockIds. Only those with lockIds after
-- $2, which is empty unless there is only one key.
WITH wanted AS MATERIALIZED (SELECT key FROM unnest($1::text[]) AS asked (key)),
live_shares
SELECT * FROM share WHERE lock_id > $2::text ORDER BY key, lock_id LIMIT $3::bigint
