-- The documented arguments of release, extend and lookup.
-- ARGV: lockId, toleranceMs, and ttlMs for extend
local lock_id, TOLERANCE_MS, ttl_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3]

