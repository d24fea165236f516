-- Arguments as our own connection sends them: no more than the server cannot know.
-- ARGV: lockId, ttlMs, the user's key as it stands inside a JSON string, with the holder's label as
-- the next field if it has one
local lock_id, ttl_ms, key_in_json = ARGV[1], ARGV[2], ARGV[3]
-- A lock counts as held for this long past its expiry (TIME_TOLERANCE_MS).
local TOLERANCE_MS = 1000
local LEAN = true

