DELETE FROM syncguard_holders WHERE record_id = ?1 AND lock_id = ?2
