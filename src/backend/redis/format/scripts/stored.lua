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

-- A shared record contains this, and no other record of ours does. See shared.lua.
local SHARED = '"holders":['

