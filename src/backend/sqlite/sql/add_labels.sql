-- Added when the first label is stored. A version that does not know labels names the columns that it
-- writes, so a row that it replaces keeps the old label. Each label therefore starts with its lockId.
ALTER TABLE syncguard_locks ADD COLUMN holder_label TEXT
