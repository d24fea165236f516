-- Arguments as documented for release, extend and lookup, for a client that may be a mock.
-- ARGV: lockId, toleranceMs, ttlMs
local lock_id, TOLERANCE_MS, ttl_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3]

