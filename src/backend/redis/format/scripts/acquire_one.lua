-- KEYS: lock, index, fence counter
return acquire(KEYS[1], KEYS[2], KEYS[3], lock_id, ttl_ms, key_in_json)
