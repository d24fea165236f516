-- A live holder expires after ?2.
DELETE FROM syncguard_holders WHERE record_id = ?1 AND slot IS NOT NULL AND expires_at_ms <= ?2
