-- Checks whether a live lock is stored. Deletes a lock that expired long ago, if it is told how to find
-- the index. Never deletes a fence counter.
-- KEYS: lock, and to delete it, the start of the names of indexes
-- Returns 1 or 0.

-- At least 2000 ms, so that a lock that was just extended does not look stale.
local CLEANUP_GUARD_MS = 2000

local stored = redis.call('GET', KEYS[1])
if not stored then return 0 end
local expires = read(stored)
if not expires then return redis.error_reply(NOT_A_LOCK) end
local now = now_ms()
local is_shared = string.find(stored, SHARED, 1, true)
if expires > now - (is_shared and 0 or TOLERANCE_MS) then return 1 end
local marked_until = is_shared and string.match(stored, '"mark":%["[^"]*",(%d+)%]')
local needed_until = math.max(expires, tonumber(marked_until) or 0)
if KEYS[2] and now - needed_until > CLEANUP_GUARD_MS then
  -- The answer does not depend on it. If it fails, a later call tries again.
  pcall(remove, KEYS[1], stored, KEYS[2])
end
return 0
