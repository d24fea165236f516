-- Removes a waiter's mark from a shared record, unless another waiter has replaced it.
-- KEYS: lock
-- ARGV: the mark's id
-- Returns 1 if the mark was there, otherwise 0.

local stored = redis.call('GET', KEYS[1])
local shared = shared_records()
local record = stored and shared.read(stored)
if not record or record.mark ~= ARGV[1] then return 0 end
record.marked_until, record.freed = 0, record.freed + 1
shared.write(KEYS[1], record, now_ms(), shared.holders(record))
return 1
