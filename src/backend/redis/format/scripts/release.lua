-- Ends the lock that is held with this lockId, or one holder's share of it. `lock` is its name, if the caller
-- knows it. Otherwise, or if another lock is stored there, the index has the name.
-- Returns 1 released, 0 held by another, -1 not found, -2 expired.
local function release(index, lock_id, lock)
  -- A caller that knows the name has acquired the lock itself. So the lock has a TTL, and is live.
  local stored = lock and redis.call('GET', lock)
  if stored and string.find(stored, '"lockId":"' .. lock_id .. '"', 1, true) then
    redis.call('DEL', lock, index)
    return 1
  end

  if not stored or not string.find(stored, SHARED, 1, true) then
    lock = redis.call('GET', index)
    if not lock then return -1 end
    stored = redis.call('GET', lock)
    if not stored then return -1 end
  end
  local shared = string.find(stored, SHARED, 1, true) and shared_records()
  local record = shared and shared.read(stored)
  if record then
    local now = now_ms()
    local start, stop, expires = shared.find(record, lock_id)
    if not start then return 0 end
    -- At its memory limit a server refuses SET, unless the script has written before.
    redis.call('DEL', index)
    if expires <= now then return -2 end
    if expires == record.expires then record.expires = shared.last_other(record, now, expires) end
    record.freed = record.freed + 1
    -- One comma goes with the holder: the one that follows, or the one before the last holder.
    local is_last = stop == record.last
    local before = string.sub(stored, record.first, is_last and start - 2 or start - 1)
    shared.write(lock, record, now, before, string.sub(stored, stop + 2, record.last))
    return 1
  end

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

