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
if expires > now - TOLERANCE_MS then return 1 end
if KEYS[2] and now - expires > CLEANUP_GUARD_MS then
  -- The answer does not depend on it. If it fails, a later call tries again.
  pcall(remove, KEYS[1], stored, KEYS[2])
end
return 0
