-- Locks the row of the record that the holder with lockId $1 belongs to, until the transaction ends. The next
-- statement then sees all its holders as they are: no other session can change them meanwhile. This is a
-- statement of its own for the same reason as take_advisory_lock.sql.
SELECT FROM syncguard_locks
WHERE key = (SELECT key FROM syncguard_locks_holders WHERE lock_id = $1::text)
FOR UPDATE
