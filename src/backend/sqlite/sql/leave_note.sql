DROP TABLE IF EXISTS syncguard_holders;
DROP TABLE IF EXISTS syncguard_locks;
DROP TABLE IF EXISTS syncguard_fence_counters;
DROP TABLE IF EXISTS syncguard_moved;
CREATE TABLE syncguard_moved (path TEXT NOT NULL) STRICT;
