-- Takes the lock unless a live one is there.
-- KEYS: lock, index, fence counter
-- ARGV: lockId, ttlMs, the user's key as it stands inside a JSON string
-- Returns {1, fence, expiresAtMs}, or when it is locked how long it will be, in negative milliseconds.
-- Nothing is written before all checks are done.

local now = now_ms()
local stored = redis.call('GET', KEYS[1])
if stored then
  local expires = read(stored)
  if not expires then return redis.error_reply(NOT_A_LOCK) end
  if expires > now - TOLERANCE_MS then
    local left = expires - now
    -- Others may have stored it so that Redis does not remove it at its end.
    if left < 0 then left = left + TOLERANCE_MS end
    return -1 - left
  end
end

-- The counter goes back when it is used up (FENCE_MAX) or was never one of ours.
local fence = redis.call('INCR', KEYS[3])
if fence > 900000000000000 or fence < 1 then
  redis.call('DECR', KEYS[3])
  return redis.error_reply('SGFENCE counter out of range')
end

local expires = now + ARGV[2]
fence = string.format('%015.0f', fence)
local data = string.format(
  '{"lockId":"%s","expiresAtMs":%.0f,"acquiredAtMs":%.0f,"key":"%s","fence":"%s"}',
  ARGV[1], expires, now, ARGV[3], fence)
redis.call('SET', KEYS[1], data, 'PX', ARGV[2])
redis.call('SET', KEYS[2], KEYS[1], 'PX', ARGV[2])
return {1, fence, expires}
