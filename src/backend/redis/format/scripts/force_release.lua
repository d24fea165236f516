-- Deletes a lock, whoever holds it, but never its fence counter.
-- KEYS: lock, the start of the names of indexes
-- Returns 1 if the lock was live, otherwise 0.

local stored = redis.call('GET', KEYS[1])
if not stored then return 0 end
local expires = read(stored)
if not expires then return redis.error_reply(NOT_A_LOCK) end
local lock_id = lock_id_of(stored)
local index = lock_id and KEYS[2] .. lock_id
if index and redis.call('GET', index) == KEYS[1] then redis.call('DEL', index) end
redis.call('DEL', KEYS[1])
return expires > now_ms() - TOLERANCE_MS and 1 or 0
