-- Deletes a lock, whoever holds it, even if several do, but never its fence counter.
-- KEYS: lock, the start of the names of indexes
-- Returns 1 if the lock was live, otherwise 0.

local stored = redis.call('GET', KEYS[1])
if not stored then return 0 end
local expires = read(stored)
if not expires then return redis.error_reply(NOT_A_LOCK) end
remove(KEYS[1], stored, KEYS[2])
local tolerance = string.find(stored, SHARED, 1, true) and 0 or TOLERANCE_MS
return expires > now_ms() - tolerance and 1 or 0
