-- Checks whether a live lock is stored. Only reads.
-- KEYS: lock
-- Returns 1 or 0. If the lock expired so long ago that it may be cleaned up, returns its lockId.

-- At least 2000 ms, so that a lock that was just extended does not look stale.
local CLEANUP_GUARD_MS = 2000

local stored = redis.call('GET', KEYS[1])
if not stored then return 0 end
local expires = read(stored)
if not expires then return redis.error_reply(NOT_A_LOCK) end
local now = now_ms()
if expires > now - TOLERANCE_MS then return 1 end
if now - expires <= CLEANUP_GUARD_MS then return 0 end
return lock_id_of(stored) or 0
