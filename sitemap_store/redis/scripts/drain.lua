-- Empties a state that has no id (it never published), keeping its unfolded events in the list `held`, in
-- shard order; what held already has stays before them. From now on until the state gets its id, appends
-- go to held too: their URLs may not have their seats yet. Called before a restore, and again if one was
-- cut short.
-- ARGV: 1 now, 2 the restore's token: what a restore with another one still sends is refused
-- Returns how many log elements were kept, or -1 when the state has an id.
if redis.call('HGET', key('state'), 'id') then return -1 end
local kept = 0
local last = tonumber(redis.call('HGET', key('state'), 'next') or 0)
for id = 1, last do
  local elements = redis.call('LRANGE', key('log:' .. id), 0, -1)
  for _, element in ipairs(elements) do
    redis.call('RPUSH', key('held'), element)
    kept = kept + 1
  end
  redis.call('DEL', key('log:' .. id), key('snap:' .. id), key('s:' .. id))
end
local size = level(tonumber(redis.call('HGET', key('state'), 'buckets') or 1))
for b = 0, size * 4 - 1 do redis.call('DEL', key('d:' .. b)) end
for _, k in ipairs(redis.call('HKEYS', key('index_sizes'))) do
  redis.call('DEL', key('i:' .. k), key('idx:' .. k), key('leaving:' .. k), key('missing:' .. k))
end
for _, section in ipairs(redis.call('SMEMBERS', key('sections'))) do redis.call('DEL', key('sec:' .. section)) end
redis.call('DEL', key('state'), key('shards'), key('sections'), key('open'), key('numbers'), key('due'),
  key('pending'), key('scheduled'), key('leases'), key('aside'), key('uncovered'), key('purge'), key('index_sizes'))
redis.call('HSET', key('state'), 'restoring', ARGV[2])
return kept
