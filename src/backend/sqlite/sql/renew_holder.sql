UPDATE syncguard_holders SET expires_at_ms = ?3, acquired_at_ms = ?4
WHERE record_id = ?1 AND lock_id = ?2 AND slot IS NOT NULL
