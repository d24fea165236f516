SELECT lock_id, slot, expires_at_ms, acquired_at_ms, fence, holder_label FROM syncguard_holders
WHERE record_id = ?1
