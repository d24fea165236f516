-- Gives the lock that is held with this lockId a new TTL, which begins now.
-- KEYS: index
-- ARGV: lockId, toleranceMs, ttlMs
-- Returns {1, expiresAtMs}, or 0 held by another, -1 not found, -2 expired.

local lock_id, ttl_ms = ARGV[1], ARGV[3]
local lock_key = redis.call('GET', KEYS[1])
if not lock_key then return -1 end
local stored = redis.call('GET', lock_key)
if not stored then return -1 end
local expires, owned = read(stored, lock_id)
if not expires then return redis.error_reply(NOT_A_LOCK) end
local now = now_ms()
if expires <= now - TOLERANCE_MS then
  redis.call('DEL', lock_key, KEYS[1])
  return -2
end
if not owned then return 0 end

expires = now + ttl_ms
local digits = string.format('%.0f', expires)
local data, found = string.gsub(
  stored, '("expiresAtMs":)%d+([,}])', '%1' .. digits .. '%2', 1)
if found == 0 then
  local decoded = cjson.decode(stored)
  decoded.expiresAtMs = expires
  data = cjson.encode(decoded)
end
local done = redis.pcall('SET', lock_key, data, 'PX', ttl_ms)
if done.err then
  if not string.find(done.err, 'OOM', 1, true) then return done end
  -- At its memory limit a server refuses SET, unless the script has written before. DEL is never
  -- refused, and the index is written again below. Do this only after a refusal: while a cluster moves
  -- the slot, a deleted key cannot be written again.
  redis.call('DEL', KEYS[1])
  redis.call('SET', lock_key, data, 'PX', ttl_ms)
end
redis.call('SET', KEYS[1], lock_key, 'PX', ttl_ms)
return {1, expires}
