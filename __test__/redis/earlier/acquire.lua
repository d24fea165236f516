-- As version 0.1.0 had it before keys could be shared.
-- Reads stored locks. Shared by all scripts, so it has few functions: every run creates them anew.

-- A lock counts as held for this long after it expired. Callers pass this time, too, because the documented
-- arguments contain it.
local TOLERANCE_MS = 1000

-- Returns when a lock expires, and whether it is held with `lock_id`, if that is given. Nil if the data
-- is not a lock.
--
-- Every writer of this format prints JSON as cjson or string.format does, so a pattern finds a field.
-- The quotes inside a user's key are escaped, so a key cannot forge a field. Other JSON, with spaces or
-- another number format, is decoded.
local function read(stored, lock_id)
  local expires = tonumber(string.match(stored, '"expiresAtMs":(%d+)[,}]'))
  local owned = lock_id and string.find(stored, '"lockId":"' .. lock_id .. '"', 1, true)
  if expires and (owned or not lock_id) then return expires, true end
  local ok, data = pcall(cjson.decode, stored)
  if not ok or type(data) ~= 'table' then return expires, false end
  if not expires and type(data.expiresAtMs) == 'number' then expires = data.expiresAtMs end
  return expires, not lock_id or data.lockId == lock_id
end

local now
local function now_ms()
  if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return now
end

local NOT_A_LOCK = 'SGDATA not a lock'

-- Acquires the lock, unless a live lock is stored. `counter` is the name of its fence counter. `label` is
-- the holder's label, or empty, or nil, because it is not among the documented arguments.
-- Writes nothing before all checks are done.
--
-- Returns {1, fence, expiresAtMs}. For a live lock returns {0, the milliseconds until it expires,
-- expiresAtMs, its holder's label if there is one}, or 0 if neither `label` nor the holder's is there.
local MAX_LABEL_BYTES = 128
local function acquire(lock, index, counter, lock_id, ttl_ms, key, label)
  local now = now_ms()
  local stored = redis.call('GET', lock)
  if stored then
    local expires = read(stored)
    if not expires then return redis.error_reply(NOT_A_LOCK) end
    if expires > now - TOLERANCE_MS then
      local holder
      if string.find(stored, '"holderLabel":"', 1, true) then
        local ok, data = pcall(cjson.decode, stored)
        holder = ok and type(data) == 'table' and data.holderLabel
        if type(holder) ~= 'string' or #holder > MAX_LABEL_BYTES then holder = nil end
      end
      if not label and not holder then return 0 end
      local left = expires - now
      -- Another program may have stored the lock without a TTL.
      if left < 0 then left = left + TOLERANCE_MS end
      return {0, left, expires, holder}
    end
  end

  -- Undo the increment if the counter is exhausted (FENCE_MAX), or if it was never one of ours.
  local number = redis.call('INCR', counter)
  if number > 900000000000000 or number < 1 then
    redis.call('DECR', counter)
    return redis.error_reply('SGFENCE counter out of range')
  end

  local expires = now + ttl_ms
  local labelled = label and label ~= '' and ',"holderLabel":' .. cjson.encode(label) or ''
  local data = string.format(
    '{"lockId":"%s","expiresAtMs":%.0f,"acquiredAtMs":%.0f,"key":%s%s,"fence":"%015.0f"}',
    lock_id, expires, now, cjson.encode(key), labelled, number)
  redis.call('SET', lock, data, 'PX', ttl_ms)
  redis.call('SET', index, lock, 'PX', ttl_ms)
  -- The fence is what the data ends with. To format it again would take longer.
  return {1, string.sub(data, -17, -3), expires}
end

-- KEYS: lock, index, fence counter
-- ARGV: lockId, ttlMs, toleranceMs, the lock's name, the user's key, and perhaps a label
return acquire(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[5], ARGV[6])
