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

-- KEYS: index, and the lock if its name is known
-- ARGV: lockId, toleranceMs
return release(KEYS[1], ARGV[1], KEYS[2])
