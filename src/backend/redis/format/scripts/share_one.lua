-- KEYS: lock, index, fence counter
-- ARGV: lockId, ttlMs, toleranceMs, the lock's name, the user's key, a label or nothing, limit, the record's
-- lockId
return share(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8])
