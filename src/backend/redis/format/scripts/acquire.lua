-- Acquires the lock, unless a live lock is stored. `counter` is the name of its fence counter.
-- Writes nothing before all checks are done.
--
-- Returns, if LEAN is set, {fence as a number, expiresAtMs}, or for a live lock {-1 - the milliseconds
-- until it expires, expiresAtMs, its holder's label if there is one}.
-- Otherwise returns {1, fence, expiresAtMs}, or for a live lock 0, or, if its holder has a label,
-- {0, the milliseconds until it expires, expiresAtMs, label}.
local MAX_LABEL_BYTES = 128
local function acquire(lock, index, counter, lock_id, ttl_ms, key_in_json)
  local now = now_ms()
  local stored = redis.call('GET', lock)
  if stored then
    local expires = read(stored)
    if not expires then return redis.error_reply(NOT_A_LOCK) end
    if expires > now - TOLERANCE_MS then
      local label
      if string.find(stored, '"holderLabel":"', 1, true) then
        local ok, data = pcall(cjson.decode, stored)
        label = ok and type(data) == 'table' and data.holderLabel
        if type(label) ~= 'string' or #label > MAX_LABEL_BYTES then label = nil end
      end
      if not LEAN and not label then return 0 end
      local left = expires - now
      -- Another program may have stored the lock without a TTL.
      if left < 0 then left = left + TOLERANCE_MS end
      if not LEAN then return {0, left, expires, label} end
      return {-1 - left, expires, label}
    end
  end

  -- Undo the increment if the counter is exhausted (FENCE_MAX), or if it was never one of ours.
  local fence = redis.call('INCR', counter)
  if fence > 900000000000000 or fence < 1 then
    redis.call('DECR', counter)
    return redis.error_reply('SGFENCE counter out of range')
  end

  local expires = now + ttl_ms
  local data = string.format(
    '{"lockId":"%s","expiresAtMs":%.0f,"acquiredAtMs":%.0f,"key":"%s","fence":"%015.0f"}',
    lock_id, expires, now, key_in_json, fence)
  redis.call('SET', lock, data, 'PX', ttl_ms)
  redis.call('SET', index, lock, 'PX', ttl_ms)
  if LEAN then return {fence, expires} end
  return {1, string.format('%015.0f', fence), expires}
end

