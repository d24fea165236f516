-- Acquires the lock, unless a live lock is stored. `counter` is the name of its fence counter. `label` is
-- the holder's label, or empty, or nil, because it is not among the documented arguments. A caller that
-- has checked what is stored passes `grant`, which gets the fence and writes something else.
-- Writes nothing before all checks are done.
--
-- Returns {1, fence, expiresAtMs}. For a live lock returns {0, the milliseconds until it expires,
-- expiresAtMs, its holder's label if there is one}, or 0 if neither `label` nor the holder's is there. For
-- a shared one returns {0, the milliseconds, expiresAtMs, '', 1}.
local function acquire(lock, index, counter, lock_id, ttl_ms, key, label, grant)
  local now = now_ms()
  local stored = not grant and redis.call('GET', lock)
  if stored then
    local expires = read(stored)
    if not expires then return redis.error_reply(NOT_A_LOCK) end
    local is_shared = string.find(stored, SHARED, 1, true)
    -- A mark can make a shared record outlive its holders, whose leases end without a tolerance.
    if is_shared and expires > now then return {0, expires - now, expires, '', 1} end
    if not is_shared and expires > now - TOLERANCE_MS then
      local holder
      if string.find(stored, '"holderLabel":"', 1, true) then
        local ok, data = pcall(cjson.decode, stored)
        holder = ok and type(data) == 'table' and data.holderLabel
        -- Longer than any label.
        if type(holder) ~= 'string' or #holder > 128 then holder = nil end
      end
      if not label and not holder then return 0 end
      local left = expires - now
      -- Another program may have stored the lock without a TTL.
      if left < 0 then left = left + TOLERANCE_MS end
      return {0, left, expires, holder}
    end
  end

  -- Undo the increment if the counter is exhausted (FENCE_MAX), or if it was never one of ours.
  local number = redis.call('INCR', counter)
  if number > 900000000000000 or number < 1 then
    redis.call('DECR', counter)
    return redis.error_reply('SGFENCE counter out of range')
  end
  if grant then return grant(number) end

  local expires = now + ttl_ms
  local labelled = label and label ~= '' and ',"holderLabel":' .. cjson.encode(label) or ''
  local data = string.format(
    '{"lockId":"%s","expiresAtMs":%.0f,"acquiredAtMs":%.0f,"key":%s%s,"fence":"%015.0f"}',
    lock_id, expires, now, cjson.encode(key), labelled, number)
  redis.call('SET', lock, data, 'PX', ttl_ms)
  redis.call('SET', index, lock, 'PX', ttl_ms)
  -- The fence is what the data ends with. To format it again would take longer.
  return {1, string.sub(data, -17, -3), expires}
end

