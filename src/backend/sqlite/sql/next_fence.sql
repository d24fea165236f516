-- No row comes back, and nothing is written, when the counter is at its limit (?3).
INSERT INTO syncguard_fence_counters (fence_key, fence, key_debug) VALUES (?1, 1, ?2)
ON CONFLICT (fence_key) DO UPDATE SET fence = fence + 1 WHERE fence < ?3
RETURNING fence
