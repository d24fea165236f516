-- Stores the fence after that of last_fence.sql, in the same transaction. Two plain statements take less
-- time than one with RETURNING.
INSERT INTO syncguard_fence_counters (fence_key, fence, key_debug) VALUES (?1, ?2, ?3)
ON CONFLICT (fence_key) DO UPDATE SET fence = excluded.fence
