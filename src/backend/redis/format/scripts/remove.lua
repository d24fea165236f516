-- Deletes a lock, whoever holds it, and its index. `index_start` is the start of the names of indexes. An
-- index whose name had to be shortened is not found. It stays until its time is over, and leads nowhere.
-- So does one for data that has no valid lockId.
local function remove(lock, stored, index_start)
  local ok, data = pcall(cjson.decode, stored)
  local lock_id = ok and type(data) == 'table' and data.lockId
  if type(lock_id) == 'string' and #lock_id == 22 and string.find(lock_id, '^[%w_-]+$') then
    local index = index_start .. lock_id
    if redis.call('GET', index) == lock then redis.call('DEL', index) end
  end
  redis.call('DEL', lock)
end

