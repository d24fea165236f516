INSERT OR REPLACE INTO syncguard_holders
  (record_id, lock_id, slot, expires_at_ms, acquired_at_ms, fence, holder_label)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
