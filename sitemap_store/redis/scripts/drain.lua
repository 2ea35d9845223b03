-- Empties a state that has no id (it never published), keeping its unfolded events in the list `held`, in
-- shard order; what held already has stays before them. From now on until the state gets its id, appends
-- go to held too: their URLs may not have their seats yet. Called before a restore, and again if one was
-- cut short.
-- ARGV: 1 now, 2 the restore's token: what a restore with another one still sends is refused
-- Returns how many log elements were kept, or -1 when the state has an id.
if redis.call('HGET', keys.state(), 'id') then return -1 end
local kept = 0
local last = tonumber(redis.call('HGET', keys.state(), 'next') or 0)
for id = 1, last do
  local elements = redis.call('LRANGE', keys.log(id), 0, -1)
  for _, element in ipairs(elements) do
    redis.call('RPUSH', keys.held(), element)
    kept = kept + 1
  end
  redis.call('DEL', keys.log(id), keys.snapshot(id), keys.shard(id))
end
local size = level(tonumber(redis.call('HGET', keys.state(), 'buckets') or 1))
for b = 0, size * 4 - 1 do redis.call('DEL', keys.directory(b)) end
for _, k in ipairs(redis.call('HKEYS', keys.index_sizes())) do
  redis.call('DEL', keys.index(k), keys.listing(k), keys.leaving(k), keys.missing(k))
end
for _, section in ipairs(redis.call('SMEMBERS', keys.sections())) do redis.call('DEL', keys.section(section)) end
redis.call('DEL', keys.state(), keys.shards(), keys.sections(), keys.open_shards(), keys.numbers(), keys.due(),
  keys.pending(), keys.scheduled(), keys.leases(), keys.aside(), keys.uncovered(), keys.purge(), keys.index_sizes())
redis.call('HSET', keys.state(), 'restoring', ARGV[2])
return kept
