-- Notes the settings that a site's files follow from now on; each change gives them a higher number. A worker
-- with a lower number renders nothing any more.
-- ARGV: 1 now, 2 digest of the settings, 3 what producers must know of the site
-- Returns {number, whether the files follow other settings so far}.
local state = keys.state()
local before = redis.call('HGET', state, 'looks')
redis.call('HSET', state, 'looks', ARGV[2], 'site', ARGV[3])
if before == ARGV[2] then return {tonumber(redis.call('HGET', state, 'config') or 1), 0} end
return {redis.call('HINCRBY', state, 'config', 1), before and 1 or 0}
