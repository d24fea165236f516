-- KEYS: index, and the lock where that is known
return release(KEYS[1], lock_id, KEYS[2])
