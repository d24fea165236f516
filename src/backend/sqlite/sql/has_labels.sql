SELECT EXISTS (SELECT 1 FROM pragma_table_info('syncguard_locks') WHERE name = 'holder_label')
