-- What the server says of itself. Reads only.
-- KEYS: any, of the node that is asked
return redis.call('INFO')
