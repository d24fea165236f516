-- The documented arguments of acquire, which a client of the user gets.
-- ARGV: lockId, ttlMs, toleranceMs, the lock's name, the user's key, and the holder's label if it has
-- one. The name is not used, because the client may put a prefix before the name in KEYS.
local LEAN = false
local lock_id, ttl_ms, TOLERANCE_MS = ARGV[1], ARGV[2], tonumber(ARGV[3])
local key_in_json = string.sub(cjson.encode(ARGV[5]), 2, -2)
if ARGV[6] then
  key_in_json = key_in_json .. '","holderLabel":"' .. string.sub(cjson.encode(ARGV[6]), 2, -2)
end

