-- Deletes the lock that is held with this lockId. `lock` is its name, if the caller knows it. Otherwise,
-- or if another lock is stored there, the index has the name.
-- Returns 1 released, 0 held by another, -1 not found, -2 expired.
local function release(index, lock_id, lock)
  -- A caller that knows the name has acquired the lock itself. So the lock has a TTL, and is live.
  local known = lock and redis.call('GET', lock)
  if known and string.find(known, '"lockId":"' .. lock_id .. '"', 1, true) then
    redis.call('DEL', lock, index)
    return 1
  end

  lock = redis.call('GET', index)
  if not lock then return -1 end
  local stored = redis.call('GET', lock)
  if not stored then return -1 end
  local expires, owned = read(stored, lock_id)
  if not expires then return redis.error_reply(NOT_A_LOCK) end
  if expires <= now_ms() - TOLERANCE_MS then
    redis.call('DEL', lock, index)
    return -2
  end
  if not owned then return 0 end
  redis.call('DEL', lock, index)
  return 1
end

