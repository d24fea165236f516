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

-- Gives the lock that is held with this lockId a new TTL, which begins now.
-- KEYS: index
-- ARGV: lockId, toleranceMs, ttlMs
-- Returns {1, expiresAtMs}, or 0 held by another, -1 not found, -2 expired.

local lock_id, ttl_ms = ARGV[1], ARGV[3]
local lock_key = redis.call('GET', KEYS[1])
if not lock_key then return -1 end
local stored = redis.call('GET', lock_key)
if not stored then return -1 end
local expires, owned = read(stored, lock_id)
if not expires then return redis.error_reply(NOT_A_LOCK) end
local now = now_ms()
if expires <= now - TOLERANCE_MS then
  redis.call('DEL', lock_key, KEYS[1])
  return -2
end
if not owned then return 0 end

expires = now + ttl_ms
local digits = string.format('%.0f', expires)
local data, found = string.gsub(
  stored, '("expiresAtMs":)%d+([,}])', '%1' .. digits .. '%2', 1)
if found == 0 then
  local decoded = cjson.decode(stored)
  decoded.expiresAtMs = expires
  data = cjson.encode(decoded)
end
local done = redis.pcall('SET', lock_key, data, 'PX', ttl_ms)
if done.err then
  if not string.find(done.err, 'OOM', 1, true) then return done end
  -- At its memory limit a server refuses SET, unless the script has written before. DEL is never
  -- refused, and the index is written again below. Do this only after a refusal: while a cluster moves
  -- the slot, a deleted key cannot be written again.
  redis.call('DEL', KEYS[1])
  redis.call('SET', lock_key, data, 'PX', ttl_ms)
end
redis.call('SET', KEYS[1], lock_key, 'PX', ttl_ms)
return {1, expires}
