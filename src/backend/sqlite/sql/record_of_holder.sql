-- Returns the shared record of which this lockId is a holder. No row if the record is gone.
SELECT r.user_key, r.lock_id AS lock_id, r.expires_at_ms, r.acquired_at_ms, r.fence
FROM syncguard_holders AS h JOIN syncguard_locks AS r ON r.lock_id = h.record_id
WHERE h.lock_id = ?1 AND h.slot IS NOT NULL
