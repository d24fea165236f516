-- Deletes a lock, whoever holds it, and its index. `index_start` is the start of the names of indexes. An
-- index whose name had to be shortened is not found. It stays until its time is over, and leads nowhere.
local function remove(lock, stored, index_start)
  local ok, data = pcall(cjson.decode, stored)
  local lock_id = ok and type(data) == 'table' and data.lockId
  local index = type(lock_id) == 'string' and index_start .. lock_id
  if index and redis.call('GET', index) == lock then redis.call('DEL', index) end
  redis.call('DEL', lock)
end

