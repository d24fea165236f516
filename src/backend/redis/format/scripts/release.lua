-- Deletes a lock that is held with this lockId.
-- KEYS: index
-- Returns 1 released, 0 held by another, -1 not found, -2 expired.

local lock_key = redis.call('GET', KEYS[1])
if not lock_key then return -1 end
local stored = redis.call('GET', lock_key)
if not stored then return -1 end
local expires, owned = read(stored, lock_id)
if not expires then return redis.error_reply(NOT_A_LOCK) end
if expires <= now_ms() - TOLERANCE_MS then
  redis.call('DEL', lock_key, KEYS[1])
  return -2
end
if not owned then return 0 end
redis.call('DEL', lock_key, KEYS[1])
return 1
