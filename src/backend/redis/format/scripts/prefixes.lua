-- Finds prefixes of locks in the names of fence counters. Reads only names, and only a limited number
-- of them, because other clients wait meanwhile.
-- KEYS: any key of the node to ask
-- ARGV: cursor
-- Returns {the next cursor, prefix, prefix, …}. The cursor is 0 at the end.

-- The number of names in a batch, and of batches.
local BATCH, MAX_BATCHES = 100, 10
local MAX_BYTES_OF_PAGE = 65536
-- Longer than the name of any counter.
local MAX_BYTES = 1100

-- A counter is named `prefix:fence:prefix:key`. A client may put a prefix of its own before every name,
-- so that only the end of the first prefix equals the second one.
local function prefix_of(name)
  local at = string.find(name, ':fence:', 1, true)
  if not at or #name > MAX_BYTES then return nil end
  local prefix, rest = string.sub(name, 1, at - 1), string.sub(name, at + 7)
  local colon = string.find(rest, ':', 2, true)
  while colon and colon <= #prefix + 1 do
    if string.sub(prefix, 1 - colon) == string.sub(rest, 1, colon - 1) then return prefix end
    colon = string.find(rest, ':', colon + 1, true)
  end
end

local found, seen, bytes = {ARGV[1]}, {}, 0
for _ = 1, MAX_BATCHES do
  local page = redis.call('SCAN', found[1], 'MATCH', '*:fence:*', 'COUNT', BATCH)
  found[1] = page[1]
  for _, name in ipairs(page[2]) do
    local prefix = prefix_of(name)
    if prefix and not seen[prefix] then
      seen[prefix] = true
      found[#found + 1] = prefix
      bytes = bytes + #prefix
    end
  end
  if page[1] == '0' or bytes > MAX_BYTES_OF_PAGE then break end
end
return found
