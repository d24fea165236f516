-- KEYS: index, and the lock if its name is known
-- ARGV: lockId, toleranceMs
return release(KEYS[1], ARGV[1], KEYS[2])
