-- Returns what the server says about itself. Only reads.
-- KEYS: any key of the node to ask
return redis.call('INFO')
