-- Acquires a share of the key, beside fewer than `limit` other holders. `record_id` is the lockId of a
-- record that has to be made. The other arguments are those of `acquire`.
--
-- Returns {1, fence, expiresAtMs, slot, the number of holders}. If the attempt is refused, returns what
-- `acquire` does, for the time at which this attempt could succeed.

-- The limit of holders that share a key: a script reads all of them, and other clients wait meanwhile.
local MAX_HOLDERS = 2000

local function share(lock, index, counter, lock_id, ttl_ms, key, label, limit, record_id)
  local now = now_ms()
  local shared = shared_records()
  local stored = redis.call('GET', lock)
  local record = stored and shared.read(stored)
  local holders, expiries, last, slots = '', {}, now, {}
  if record then
    if record.marked_until > now then
      return {0, record.marked_until - now, record.marked_until, '', 1}
    end
    holders, expiries, last, slots = shared.live(record, now)
    if not holders then return redis.error_reply(NOT_A_LOCK) end
    limit = math.min(limit, MAX_HOLDERS)
    if #expiries >= limit then
      table.sort(expiries)
      local free_at = expiries[#expiries - limit + 1]
      return {0, free_at - now, free_at, shared.label_at(record, free_at), 1}
    end
  elseif stored then
    local expires = read(stored)
    if not expires or string.find(stored, SHARED, 1, true) then
      return redis.error_reply(NOT_A_LOCK)
    end
    if expires > now - TOLERANCE_MS then
      -- The lock is exclusive, so it refuses this attempt, too.
      return acquire(lock, index, counter, lock_id, ttl_ms, key, label)
    end
  end

  return acquire(lock, index, counter, lock_id, ttl_ms, key, label, function(fence)
    local expires, slot = now + ttl_ms, 0
    while slots[slot] do slot = slot + 1 end
    record = record
      or {lock_id = record_id, key = cjson.encode(key), marked_until = 0, freed = 0}
    record.expires, record.acquired, record.fence = math.max(last, expires), now, fence
    local holder = shared.holder(lock_id, expires, slot, now, fence, label)
    shared.write(lock, record, now, holders, (holders == '' and '' or ',') .. holder)
    redis.call('SET', index, lock, 'PX', ttl_ms)
    return {1, string.format('%015.0f', fence), expires, slot, #expiries + 1}
  end)
end

