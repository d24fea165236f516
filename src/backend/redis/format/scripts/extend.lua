-- Gives the lock that is held with this lockId, or one holder's share of it, a new TTL, which begins now.
-- KEYS: index
-- ARGV: lockId, toleranceMs, ttlMs
-- Returns {1, expiresAtMs}, or 0 held by another, -1 not found, -2 expired.

local lock_id, ttl_ms = ARGV[1], ARGV[3]
local lock_key = redis.call('GET', KEYS[1])
if not lock_key then return -1 end
local stored = redis.call('GET', lock_key)
if not stored then return -1 end
local now = now_ms()
local expires = now + ttl_ms
local digits = string.format('%.0f', expires)

local shared = string.find(stored, SHARED, 1, true) and shared_records()
local record = shared and shared.read(stored)
local data, left
if record then
  local start, _, expired = shared.find(record, lock_id)
  if not start then return 0 end
  if expired <= now then
    redis.call('DEL', KEYS[1])
    return -2
  end
  -- The time follows the lockId and its punctuation.
  local from = start + #lock_id + 4
  local after = from + #string.format('%.0f', expired)
  if expires >= record.expires then
    record.expires = expires
  elseif expired == record.expires then
    record.expires = math.max(expires, shared.last_other(record, now, expired))
  end
  -- A waiter expects its turn when the holder would have expired, which is too late now.
  if expires < expired then record.freed = record.freed + 1 end
  local before = string.sub(stored, record.first, from - 1)
  data = shared.text(record, now, before, digits, string.sub(stored, after, record.last))
  left = shared.left(record, now)
else
  local expired, owned = read(stored, lock_id)
  if not expired then return redis.error_reply(NOT_A_LOCK) end
  if expired <= now - TOLERANCE_MS then
    redis.call('DEL', lock_key, KEYS[1])
    return -2
  end
  if not owned then return 0 end
  local found
  data, found = string.gsub(stored, '("expiresAtMs":)%d+([,}])', '%1' .. digits .. '%2', 1)
  if found == 0 then
    local decoded = cjson.decode(stored)
    decoded.expiresAtMs = expires
    data = cjson.encode(decoded)
  end
  left = ttl_ms
end

local done = redis.pcall('SET', lock_key, data, 'PX', left)
if done.err then
  if not string.find(done.err, 'OOM', 1, true) then return done end
  -- At its memory limit a server refuses SET, unless the script has written before. DEL is never
  -- refused, and the index is written again below. Do this only after a refusal: while a cluster moves
  -- the slot, a deleted key cannot be written again.
  redis.call('DEL', KEYS[1])
  redis.call('SET', lock_key, data, 'PX', left)
end
redis.call('SET', KEYS[1], lock_key, 'PX', ttl_ms)
return {1, expires}
