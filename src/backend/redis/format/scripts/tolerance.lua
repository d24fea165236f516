-- A lock counts as held for this long after it expired.
local TOLERANCE_MS = 1000

