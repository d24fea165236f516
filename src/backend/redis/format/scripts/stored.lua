-- Reading what is stored, shared by all scripts. Few functions: each run creates them anew.

-- When a lock expires, and whether it is held with `lock_id`, if one is given. Nil when it is not a
-- lock.
--
-- Every writer of this format uses JSON as cjson or string.format prints it, so a field is found by
-- a pattern: the quotes inside a user's key are escaped and cannot forge one. Anything else
-- (spaces, another number format) is decoded properly.
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

