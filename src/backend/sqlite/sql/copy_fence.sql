-- A counter never goes back, whichever file has counted further.
INSERT INTO syncguard_fence_counters (fence_key, fence, key_debug) VALUES (?1, ?2, ?3)
ON CONFLICT (fence_key) DO UPDATE SET fence = max(fence, excluded.fence)
