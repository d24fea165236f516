-- Deletes a lock that expired long ago, and its index. Never deletes a fence counter or a live lock.
-- KEYS: lock, index
-- Returns 1 if the lock was deleted, otherwise 0.

-- The same as in is_locked. Another holder may have acquired the lock since then.
local CLEANUP_GUARD_MS = 2000

local stored = redis.call('GET', KEYS[1])
if not stored then return 0 end
local expires, owned = read(stored, lock_id)
if not expires or now_ms() - expires <= CLEANUP_GUARD_MS then return 0 end
if not owned then return 0 end
redis.call('DEL', KEYS[1])
if redis.call('GET', KEYS[2]) == KEYS[1] then redis.call('DEL', KEYS[2]) end
return 1
