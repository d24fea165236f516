DELETE FROM syncguard_holders WHERE record_id = ?1
