-- The arguments of acquire over our own connection: only what the server cannot know.
-- ARGV: lockId, ttlMs, the user's key as it is written inside a JSON string. If the holder has a label,
-- that follows the key as another field.
local LEAN = true
local lock_id, ttl_ms, key_in_json = ARGV[1], ARGV[2], ARGV[3]

