-- Acquires the lock for a waiter. If it is shared, leaves the waiter's mark, which keeps new holders out.
-- KEYS: lock, index, fence counter
-- ARGV: lockId, ttlMs, toleranceMs, the lock's name, the user's key, a label or nothing, the mark's id

local MARK_LEASE_MS = 2000

local answer = acquire(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[5], ARGV[6])
local is_shared = type(answer) == 'table' and answer[1] == 0 and answer[5]
local shared = is_shared and shared_records()
local record = shared and shared.read(redis.call('GET', KEYS[1]))
if record then
  answer[4] = shared.label_at(record, record.expires)
  record.mark, record.marked_until = ARGV[7], now_ms() + MARK_LEASE_MS
  -- The attempt was refused, even if the mark cannot be written, as at the limit of memory.
  pcall(shared.write, KEYS[1], record, now_ms(), shared.holders(record))
end
return answer
