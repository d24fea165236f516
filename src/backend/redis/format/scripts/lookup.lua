-- Finds a live lock by its lockId, through the index, or by its key if the lockId is empty.
-- KEYS: lock, or index
-- ARGV: lockId, toleranceMs
-- Returns the stored data, or nil.

-- Longer than the data of any lock, and too long to send.
local MAX_BYTES = 65536

local lock_id = ARGV[1] ~= '' and ARGV[1] or nil
local lock_key = KEYS[1]
if lock_id then
  lock_key = redis.call('GET', KEYS[1])
  if not lock_key then return nil end
end
local stored = redis.call('GET', lock_key)
if not stored then return nil end
local expires, owned = read(stored, lock_id)
if not expires or #stored > MAX_BYTES then return redis.error_reply(NOT_A_LOCK) end
if not owned then return nil end
if expires <= now_ms() - TOLERANCE_MS then return nil end
return stored
