-- Reads and writes shared records. A shared record is a lock whose lockId nobody holds. It has more
-- fields, always in this order and at its end:
--   "mark":["id",until],"freed":0,"holders":[["lockId",expiresAtMs,slot,acquiredAtMs,fence,"label"],…]}
-- There may be no mark. `freed` counts the changes that may let another attempt succeed: watches compare
-- it. Strings cannot forge a field, because their quotes are escaped, nor a holder, because brackets in
-- labels are escaped, too.
--
-- A holder has no field `lockId`, by which release scripts of earlier versions would find it.
--
-- Returns the functions for shared records. They are made when they are needed, because every run of a
-- script makes its functions anew, and most locks are not shared.
local function shared_records()
  local RECORD = '^{"lockId":"([^"]*)","expiresAtMs":(%d+),"acquiredAtMs":(%d+),"key":(".-"),"fence":"(%d+)",'
    .. '(.-)"freed":(%d+),"holders":%['
  local MARK = '^"mark":%["([^"]*)",(%d+)%],$'
  -- Begins with the lockId's quote. Captures when the holder expires, and the slot.
  local HOLDER = '^%["[^"]+",(%d+),(%d+),[^%]]*%],'

  local shared = {}

  -- Reads a record. Nil if it is not a shared one. A comma follows each holder in `holders`.
  function shared.read(stored)
    local _, stop, lock_id, expires, acquired, key, fence, mark, freed = string.find(stored, RECORD)
    if not stop or string.sub(stored, -2) ~= ']}' then return nil end
    local mark_id, marked_until = string.match(mark, MARK)
    local holders = string.sub(stored, stop + 1, -3)
    return {
      lock_id = lock_id, expires = tonumber(expires), acquired = tonumber(acquired), key = key,
      fence = tonumber(fence), mark = mark_id, marked_until = tonumber(marked_until) or 0,
      freed = tonumber(freed), holders = holders == '' and '' or holders .. ',',
    }
  end

  -- Returns the text of a record.
  function shared.text(record, now)
    local mark = ''
    if record.marked_until > now then
      mark = string.format('"mark":["%s",%.0f],', record.mark, record.marked_until)
    end
    return string.format(
      '{"lockId":"%s","expiresAtMs":%.0f,"acquiredAtMs":%.0f,"key":%s,"fence":"%015.0f",%s"freed":%.0f,"holders":[%s]}',
      record.lock_id, record.expires, record.acquired, record.key, record.fence, mark,
      record.freed, string.sub(record.holders, 1, -2))
  end

  -- Returns for how long a record is needed: until its last holder expires, and its mark.
  function shared.left(record, now)
    return math.max(record.expires, record.marked_until) - now
  end

  -- Writes a record, or deletes it if neither a holder nor a mark is live.
  function shared.write(lock, record, now)
    local left = shared.left(record, now)
    if left <= 0 then return redis.call('DEL', lock) end
    if record.expires <= now then
      -- Only the mark is live. Other implementations must see a lock that has expired.
      record.expires, record.holders = now - TOLERANCE_MS, ''
    end
    redis.call('SET', lock, shared.text(record, now), 'PX', left)
  end

  -- Returns where the holder with this lockId begins and ends in `holders`, and when it expires. Nil if
  -- there is none.
  function shared.find(holders, lock_id)
    local start = string.find(holders, '["' .. lock_id .. '",', 1, true)
    if not start then return nil end
    local _, stop, expires = string.find(holders, HOLDER, start)
    return stop and start, stop, tonumber(expires)
  end

  -- Returns the live holders: the text of all, when each expires, when the last one does, and which
  -- slots are taken. Nil if the text is damaged.
  function shared.live(holders, now)
    local kept, expiries, slots, last = {}, {}, {}, now
    local from, at = 1, 1
    while at <= #holders do
      local _, stop, expires, slot = string.find(holders, HOLDER, at)
      if not stop then return nil end
      expires = tonumber(expires)
      if expires > now then
        expiries[#expiries + 1] = expires
        slots[tonumber(slot)] = true
        if expires > last then last = expires end
      else
        kept[#kept + 1] = string.sub(holders, from, at - 1)
        from = stop + 1
      end
      at = stop + 1
    end
    kept[#kept + 1] = string.sub(holders, from)
    return table.concat(kept), expiries, last, slots
  end

  -- Returns the text of a holder. `label` may be nil or empty.
  function shared.holder(lock_id, expires, slot, acquired, fence, label)
    local escapes = {['['] = '\\u005b', [']'] = '\\u005d'}
    local text = string.gsub(cjson.encode(label or ''), '[%[%]]', escapes)
    return string.format('["%s",%.0f,%d,%.0f,%.0f,%s],', lock_id, expires, slot, acquired, fence, text)
  end

  -- Returns the label of a holder that expires at this time. Empty if it has none.
  function shared.label_at(holders, expires)
    local holder = string.format('",%.0f,%%d+,%%d+,%%d+,("[^%%]]*")%%]', expires)
    local ok, labels = pcall(cjson.decode, '[' .. (string.match(holders, holder) or '') .. ']')
    return ok and labels[1] or ''
  end

  return shared
end

