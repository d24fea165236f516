-- Reads and writes shared records. A shared record is a lock whose lockId nobody holds. It has more
-- fields, always in this order and at its end:
--   "mark":["id",until],"freed":0,"holders":[["lockId",expiresAtMs,slot,acquiredAtMs,fence,"label"],…]}
-- There may be no mark. `freed` counts the changes that may let another attempt succeed: watches compare
-- it. Strings cannot forge a field, because their quotes are escaped, nor a holder, because brackets in
-- labels are escaped, too.
--
-- A holder has no field `lockId`, by which release scripts of earlier versions would find it. The holders
-- are found and replaced as text, and copied seldom: a record with a thousand of them has 70 KB.
--
-- Returns the functions for shared records. They are made when they are needed, because every run of a
-- script makes its functions anew, and most locks are not shared.
local function shared_records()
  local find, sub, format, tonumber = string.find, string.sub, string.format, tonumber
  local RECORD = '^{"lockId":"([^"]*)","expiresAtMs":(%d+),"acquiredAtMs":(%d+),"key":(".-"),"fence":"(%d+)",'
    .. '(.-)"freed":(%d+),"holders":%['
  local MARK = '^"mark":%["([^"]*)",(%d+)%],$'
  -- A lockId has 22 characters. Captures when the holder expires, and the slot.
  local HOLDER = '^%["......................",(%d+),(%d+),'

  local shared = {}

  -- Reads a record. Nil if it is not a shared one. The holders are its `text` from `first` to `last`.
  function shared.read(stored)
    local _, stop, lock_id, expires, acquired, key, fence, mark, freed = find(stored, RECORD)
    if not stop or sub(stored, -2) ~= ']}' then return nil end
    local mark_id, marked_until = string.match(mark, MARK)
    return {
      lock_id = lock_id, expires = tonumber(expires), acquired = tonumber(acquired), key = key,
      fence = tonumber(fence), mark = mark_id, marked_until = tonumber(marked_until) or 0,
      freed = tonumber(freed), text = stored, first = stop + 1, last = #stored - 2,
    }
  end

  -- Returns the text of a record with these holders, which may be in three parts.
  function shared.text(record, now, holders, more, rest)
    local mark = ''
    if record.marked_until > now then
      mark = format('"mark":["%s",%.0f],', record.mark, record.marked_until)
    end
    local head = format(
      '{"lockId":"%s","expiresAtMs":%.0f,"acquiredAtMs":%.0f,"key":%s,"fence":"%015.0f",%s"freed":%.0f,"holders":[',
      record.lock_id, record.expires, record.acquired, record.key, record.fence, mark, record.freed)
    return head .. holders .. (more or '') .. (rest or '') .. ']}'
  end

  -- Returns for how long a record is needed: until its last holder expires, and its mark.
  function shared.left(record, now)
    return math.max(record.expires, record.marked_until) - now
  end

  -- Writes a record with these holders, or deletes it if neither a holder nor a mark is live.
  function shared.write(lock, record, now, holders, more)
    local left = shared.left(record, now)
    if left <= 0 then return redis.call('DEL', lock) end
    if record.expires <= now then
      -- Only the mark is live. Other implementations must see a lock that has expired.
      record.expires, holders, more = now - TOLERANCE_MS, '', ''
    end
    redis.call('SET', lock, shared.text(record, now, holders, more), 'PX', left)
  end

  function shared.holders(record)
    return sub(record.text, record.first, record.last)
  end

  -- Returns where the text of the holder with this lockId begins and ends, and when it expires. Nil if
  -- there is none.
  function shared.find(record, lock_id)
    local start = find(record.text, '["' .. lock_id .. '",', record.first, true)
    if not start then return nil end
    local _, stop, expires = find(record.text, HOLDER, start)
    if not stop then return nil end
    return start, find(record.text, ']', stop, true), tonumber(expires)
  end

  -- Returns the live holders: the text of all, when each expires, when the last one does, and which
  -- slots are taken. Nil if the text is damaged.
  function shared.live(record, now)
    local text, last_char, at = record.text, record.last, record.first
    local kept, kept_from = {}, at
    local expiries, slots, count, last = {}, {}, 0, now
    while at <= last_char do
      local _, stop, expires, slot = find(text, HOLDER, at)
      stop = stop and find(text, ']', stop, true)
      if not stop then return nil end
      expires = tonumber(expires)
      if expires > now then
        count = count + 1
        expiries[count] = expires
        slots[tonumber(slot)] = true
        if expires > last then last = expires end
      else
        kept[#kept + 1] = sub(text, kept_from, at - 1)
        kept_from = stop + 2
      end
      at = stop + 2
      if at <= last_char and sub(text, at - 1, at - 1) ~= ',' then return nil end
    end
    kept[#kept + 1] = sub(text, kept_from, last_char)
    local holders = #kept == 1 and kept[1] or string.gsub(table.concat(kept), ',$', '')
    return holders, expiries, last, slots
  end

  -- Returns when the last holder expires apart from one that expires at `expires`.
  function shared.last_other(record, now, expires)
    local _, expiries = shared.live(record, now)
    if not expiries then return expires end
    table.sort(expiries)
    if expiries[#expiries] == expires then expiries[#expiries] = nil end
    return expiries[#expiries] or now
  end

  -- Returns the text of a holder. `label` may be nil or empty.
  function shared.holder(lock_id, expires, slot, acquired, fence, label)
    local escapes = {['['] = '\\u005b', [']'] = '\\u005d'}
    local text = string.gsub(cjson.encode(label or ''), '[%[%]]', escapes)
    return format('["%s",%.0f,%d,%.0f,%.0f,%s]', lock_id, expires, slot, acquired, fence, text)
  end

  -- Returns the label of a holder that expires at this time. Empty if it has none.
  function shared.label_at(record, expires)
    local holder = format('",%.0f,%%d+,%%d+,%%d+,("[^%%]]*")%%]', expires)
    local label = string.match(record.text, holder, record.first)
    local ok, labels = pcall(cjson.decode, '[' .. (label or '') .. ']')
    return ok and labels[1] or ''
  end

  return shared
end

