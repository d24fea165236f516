-- Finds a live lock by its lockId, through the index, or by its key if the lockId is empty. Of several
-- holders that share the key, the one that expires last.
-- KEYS: lock, or index
-- ARGV: lockId, toleranceMs
-- Returns the stored data, or nil. If the key is shared, returns {the data with only this holder, the
-- number of holders}.

-- Longer than the data of any lock that is not shared, and too long to send.
local MAX_BYTES = 65536

local lock_id = ARGV[1] ~= '' and ARGV[1] or nil
local lock_key = KEYS[1]
if lock_id then
  lock_key = redis.call('GET', KEYS[1])
  if not lock_key then return nil end
end
local stored = redis.call('GET', lock_key)
if not stored then return nil end

local shared = string.find(stored, SHARED, 1, true) and shared_records()
local record = shared and shared.read(stored)
if record then
  local now = now_ms()
  local holders, expiries, last = shared.live(record, now)
  if not holders then return redis.error_reply(NOT_A_LOCK) end
  local start, stop, expires
  if lock_id then
    start, stop, expires = shared.find(record, lock_id)
  else
    local holder = string.format('%%["[^"]+",%.0f,[^%%]]*%%]', last)
    start, stop = string.find(stored, holder, record.first)
    expires = last
  end
  if not start or expires <= now then return nil end
  return {shared.text(record, now, string.sub(stored, start, stop)), #expiries}
end

local expires, owned = read(stored, lock_id)
if not expires or #stored > MAX_BYTES then return redis.error_reply(NOT_A_LOCK) end
if not owned then return nil end
if expires <= now_ms() - TOLERANCE_MS then return nil end
return stored
