-- Deletes a lock, whoever holds it, but never its fence counter.
-- KEYS: lock, the start of the names of indexes
-- Returns 1 if the lock was live, otherwise 0.

local stored = redis.call('GET', KEYS[1])
if not stored then return 0 end
local expires = read(stored)
if not expires then return redis.error_reply(NOT_A_LOCK) end
remove(KEYS[1], stored, KEYS[2])
return expires > now_ms() - TOLERANCE_MS and 1 or 0
