-- Reads some of the live locks of a shard. Visits and returns only a limited number of names, because
-- other clients wait meanwhile. What it returns may be something else that only looks like a lock.
-- KEYS: the start of the names in the shard
-- ARGV: cursor, what follows that start in the names of fence counters, the number of locks wanted
-- Returns {the next cursor, the server's time in ms, name, stored data, name, stored data, …}. The cursor
-- is 0 at the end. The names lack the start. Of a shared record, some holders may have expired.

-- The number of names in a batch, and of batches: most names of a server may not be ours.
local BATCH, MAX_BATCHES = 100, 10
local MAX_BYTES_OF_PAGE = 262144
local MAX_KEY_BYTES = 512
-- Longer than the data of any lock. Longer data is cut off. It is not a lock, unless it is shared by many:
-- then the caller reads it by itself.
local MAX_BYTES = 4096

local function is_lock(name)
  return #name <= MAX_KEY_BYTES
    and string.sub(name, 1, #ARGV[2]) ~= ARGV[2]
    and (#name ~= 25 or string.sub(name, 1, 3) ~= 'id:')
end

local pattern = string.gsub(KEYS[1], '[*?%[\\]', '\\%0') .. '*'
local found, bytes, limit = {ARGV[1], string.format('%.0f', now_ms())}, 0, tonumber(ARGV[3])
local oldest = now_ms() - TOLERANCE_MS
for _ = 1, MAX_BATCHES do
  local page = redis.call('SCAN', found[1], 'MATCH', pattern, 'COUNT', BATCH)
  found[1] = page[1]
  for _, name in ipairs(page[2]) do
    local short = string.sub(name, #KEYS[1] + 1)
    -- This fails if the value is of another type.
    local stored = is_lock(short) and redis.pcall('GETRANGE', name, 0, MAX_BYTES - 1)
    local expires = type(stored) == 'string' and read(stored)
    if expires and expires > oldest then
      found[#found + 1] = short
      found[#found + 1] = stored
      bytes = bytes + #name + #stored
    end
  end
  if page[1] == '0' or #found > 2 * limit or bytes > MAX_BYTES_OF_PAGE then break end
end
return found
