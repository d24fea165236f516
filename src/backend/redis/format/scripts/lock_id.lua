-- Returns the lockId of a stored lock. Nil if it does not have the form of a lockId.
local function lock_id_of(stored)
  local ok, data = pcall(cjson.decode, stored)
  local lock_id = ok and type(data) == 'table' and data.lockId
  return type(lock_id) == 'string' and string.find(lock_id, '^[%w_-]+$') and #lock_id == 22 and lock_id
end

