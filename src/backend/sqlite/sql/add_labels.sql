-- Added when the first label is stored. Versions that do not know of labels name the columns that they
-- write, so a row that they take over keeps the old label: each starts with the lockId that it is for.
ALTER TABLE syncguard_locks ADD COLUMN holder_label TEXT
