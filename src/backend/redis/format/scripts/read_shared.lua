-- Reads a shared record that is too long for a list.
-- KEYS: lock
-- Returns {the server's time in ms, stored data}, or nil if there is none.

-- Longer than any record, and too long to send.
local MAX_BYTES = 4000000

local stored = redis.call('GET', KEYS[1])
if not stored or #stored > MAX_BYTES or not string.find(stored, SHARED, 1, true) then return nil end
return {string.format('%.0f', now_ms()), stored}
