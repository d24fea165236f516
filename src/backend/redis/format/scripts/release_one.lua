-- KEYS: index, and the lock if its name is known
return release(KEYS[1], lock_id, KEYS[2])
