-- Keeps the higher of two counters, because a fence must not be issued twice.
INSERT INTO syncguard_fence_counters (fence_key, fence, key_debug) VALUES (?1, ?2, ?3)
ON CONFLICT (fence_key) DO UPDATE SET fence = max(fence, excluded.fence)
