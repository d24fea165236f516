-- Reads some of the live locks. Bounded in what it visits and returns: others wait meanwhile.
-- KEYS: what all names start with
-- ARGV: cursor, how the names of fence counters go on, how many
-- Returns {the next cursor, name, stored data, name, stored data, …}; the names without their start.
-- The cursor is 0 at the end.
-- Under the names there may be something else that only looks like a lock.

-- Names visited at once, and how often: servers have many that are not ours.
local BATCH, MOST_BATCHES = 100, 10
local ENOUGH_BYTES = 262144
local MAX_KEY_BYTES = 512
-- Longer than any lock's data. What is cut off here is not one.
local MAX_BYTES = 4096

local pattern = string.gsub(KEYS[1], '[*?%[\\]', '\\%0') .. '*'
local counter = ARGV[2]
local function is_lock(name)
  return #name <= MAX_KEY_BYTES
    and string.sub(name, 1, #counter) ~= counter
    and (#name ~= 25 or string.sub(name, 1, 3) ~= 'id:')
end

local found, bytes, limit = {ARGV[1]}, 0, tonumber(ARGV[3])
local oldest = now_ms() - TOLERANCE_MS
for _ = 1, MOST_BATCHES do
  local page = redis.call('SCAN', found[1], 'MATCH', pattern, 'COUNT', BATCH)
  found[1] = page[1]
  for _, name in ipairs(page[2]) do
    local short = string.sub(name, #KEYS[1] + 1)
    -- An error when it is of another type.
    local stored = is_lock(short) and redis.pcall('GETRANGE', name, 0, MAX_BYTES - 1)
    local expires = type(stored) == 'string' and read(stored)
    if expires and expires > oldest then
      found[#found + 1] = short
      found[#found + 1] = stored
      bytes = bytes + #name + #stored
    end
  end
  if page[1] == '0' or #found > 2 * limit or bytes > ENOUGH_BYTES then break end
end
return found
