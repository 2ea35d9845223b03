-- Marks every shard and index file to be rendered again and compared with the output (`rebuild`), a slice
-- of the shards at a time so that no call takes long.
-- ARGV: 1 now, 2 first place among the shards, 3 last place
-- Returns how many shards were marked; the call that marks none marks the index files.
local now = clock(ARGV[1])
local ids = redis.call('ZRANGE', key('shards'), ARGV[2], ARGV[3])
for _, id in ipairs(ids) do
  redis.call('HSETNX', key('s:' .. id), 'check', 1)
  redis.call('ZADD', key('pending'), 'NX', now, id)
  redis.call('ZADD', key('due'), 'LT', now, id)
end
if #ids == 0 then
  for _, k in ipairs(redis.call('HKEYS', key('index_sizes'))) do
    redis.call('HSET', key('i:' .. k), 'check', 1)
    redis.call('HINCRBY', key('i:' .. k), 'v', 1)
    redis.call('ZADD', key('pending'), 'NX', now, 'i' .. k)
    redis.call('ZADD', key('due'), 'LT', now, 'i' .. k)
  end
end
return #ids
