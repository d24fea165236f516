-- Deletes the index of a lock with this lockId. An index whose name had to be shortened is not found. It
-- stays until its time is over, and leads nowhere.
local function remove_index(lock, lock_id, index_start)
  if #lock_id == 22 and string.find(lock_id, '^[%w_-]+$') then
    local index = index_start .. lock_id
    if redis.call('GET', index) == lock then redis.call('DEL', index) end
  end
end

-- Deletes a lock, whoever holds it, and its indexes. `index_start` is the start of the names of indexes.
-- The index of data without a valid lockId stays.
local function remove(lock, stored, index_start)
  local shared = string.find(stored, SHARED, 1, true) and shared_records()
  local record = shared and shared.read(stored)
  if record then
    for lock_id in string.gmatch(shared.holders(record), '%["([^"]+)"') do
      remove_index(lock, lock_id, index_start)
    end
  else
    local ok, data = pcall(cjson.decode, stored)
    local lock_id = ok and type(data) == 'table' and data.lockId
    if type(lock_id) == 'string' then remove_index(lock, lock_id, index_start) end
  end
  redis.call('DEL', lock)
end

