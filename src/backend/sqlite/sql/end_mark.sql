UPDATE syncguard_holders SET expires_at_ms = 0
WHERE record_id = ?1 AND lock_id = ?2 AND slot IS NULL AND expires_at_ms > 0
