-- KEYS: lock, index, fence counter
-- ARGV: lockId, ttlMs, toleranceMs, the lock's name, the user's key, and perhaps a label
return acquire(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[5], ARGV[6])
