-- Reads some of the live locks. Bounded in what it visits and returns: others wait meanwhile.
-- KEYS: what all names start with; tells a cluster's clients which server to ask
-- ARGV: cursor, pattern of the names, what the names of fence counters start with, how many
-- Returns {the next cursor, name, stored data, name, stored data, …}; the cursor is 0 at the end.
-- Under the names there may be something else that only looks like a lock.

-- Names visited at once, and how often: servers have many that are not ours.
local BATCH, MOST_BATCHES = 100, 10
local ENOUGH_BYTES = 262144
local MAX_KEY_BYTES = 512
-- Longer than any lock's data. What is cut off here is not one.
local MAX_BYTES = 4096

local index, counter = KEYS[1] .. 'id:', ARGV[3]
local function is_lock(name)
  return #name <= #KEYS[1] + MAX_KEY_BYTES and string.sub(name, 1, #counter) ~= counter
    and (#name ~= #index + 22 or string.sub(name, 1, #index) ~= index)
end

local found, bytes, limit = {ARGV[1]}, 0, tonumber(ARGV[4])
local oldest = now_ms() - TOLERANCE_MS
for _ = 1, MOST_BATCHES do
  local page = redis.call('SCAN', found[1], 'MATCH', ARGV[2], 'COUNT', BATCH)
  found[1] = page[1]
  for _, name in ipairs(page[2]) do
    -- An error when it is of another type.
    local stored = is_lock(name) and redis.pcall('GETRANGE', name, 0, MAX_BYTES - 1)
    local expires = type(stored) == 'string' and read(stored)
    if expires and expires > oldest then
      found[#found + 1] = name
      found[#found + 1] = stored
      bytes = bytes + #name + #stored
    end
  end
  if page[1] == '0' or #found > 2 * limit or bytes > ENOUGH_BYTES then break end
end
return found
