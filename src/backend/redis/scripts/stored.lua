-- Reading what is stored, shared by all scripts.
--
-- Every writer of this format uses JSON as cjson or string.format below prints it, so a field is
-- found by a pattern: the quotes inside a user's key are escaped and cannot forge one. Anything
-- else (spaces, another number format) is decoded properly; what is not a lock gives nil.

local function decode(stored)
  local ok, data = pcall(cjson.decode, stored)
  if ok and type(data) == 'table' then return data end
  return {}
end

local function expiry(stored)
  local digits = string.match(stored, '"expiresAtMs":(%d+)[,}]')
  if digits then return tonumber(digits) end
  local value = decode(stored).expiresAtMs
  if type(value) == 'number' then return value end
  return nil
end

local function owned_by(stored, lock_id)
  if string.find(stored, '"lockId":"' .. lock_id .. '"', 1, true) then return true end
  return decode(stored).lockId == lock_id
end

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A lock counts as held for this long past its expiry (TIME_TOLERANCE_MS).
local TOLERANCE_MS = 1000
local NOT_A_LOCK = 'SGDATA not a lock'

