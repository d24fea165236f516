-- Reads some of the live locks. Bounded in what it visits and returns: others wait meanwhile.
-- KEYS: what the names of a place start with
-- ARGV: cursor, how the names of fence counters go on, how many; with several places also how this
-- one's names end their start, and how those of all do
-- Returns {the next cursor, name, stored data, name, stored data, …}; the names without what those
-- of all places start with. The cursor is 0 at the end.
-- A server with several places shows them all at once, when it is asked for the first of them.
-- Under the names there may be something else that only looks like a lock.

-- Names visited at once, and how often: servers have many that are not ours.
local BATCH, MOST_BATCHES = 100, 10
local ENOUGH_BYTES = 262144
local MAX_KEY_BYTES = 512
-- Longer than any lock's data. What is cut off here is not one.
local MAX_BYTES = 4096

local own = ARGV[4] or ''
local start = string.sub(KEYS[1], 1, #KEYS[1] - #own)
local here = {[own] = true}
local before_own = true
for place = 5, #ARGV do
  local tail = ARGV[place]
  if tail == own then
    before_own = false
  else
    -- An error when another server has it.
    local answer = redis.pcall('GET', start .. tail)
    if type(answer) ~= 'table' then
      if before_own and ARGV[1] == '0' then return {'0'} end
      here[tail] = true
    end
  end
end

local pattern = string.gsub(start, '[*?%[\\]', '\\%0') .. '*'
local function is_lock(name, counter)
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
    local tail = string.sub(name, #start + 1, #KEYS[1])
    local short = string.sub(name, #KEYS[1] + 1)
    -- An error when it is of another type.
    local stored = here[tail] and is_lock(short, ARGV[2] .. tail)
      and redis.pcall('GETRANGE', name, 0, MAX_BYTES - 1)
    local expires = type(stored) == 'string' and read(stored)
    if expires and expires > oldest then
      found[#found + 1] = tail .. short
      found[#found + 1] = stored
      bytes = bytes + #name + #stored
    end
  end
  if page[1] == '0' or #found > 2 * limit or bytes > ENOUGH_BYTES then break end
end
return found
