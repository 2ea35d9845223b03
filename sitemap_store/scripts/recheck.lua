-- Marks shards to be rendered again and compared with the output (`rebuild`), or, with no ids, the index
-- files. A shard whose file is not at the output is taken off its index first, so that no index names it
-- before it is back; its lastmod stays, since its bytes will be the same.
-- ARGV: 1 now, 2 shard ids joined by a space, 3 those of them whose files are missing
local now = clock(ARGV[1])
for id in string.gmatch(ARGV[3], '%d+') do
  local k = redis.call('HGET', key('s:' .. id), 'index')
  if k then
    redis.call('HSET', key('s:' .. id), 'file', '')
    redis.call('HDEL', key('idx:' .. k), id)
  end
end
for id in string.gmatch(ARGV[2], '%d+') do
  if redis.call('EXISTS', key('s:' .. id)) == 1 then
    redis.call('HSETNX', key('s:' .. id), 'check', 1)
    redis.call('ZADD', key('pending'), 'NX', now, id)
    redis.call('ZADD', key('due'), 'LT', now, id)
  end
end
if ARGV[2] == '' then
  for _, k in ipairs(redis.call('HKEYS', key('index_sizes'))) do
    redis.call('HSET', key('i:' .. k), 'check', 1)
    redis.call('HINCRBY', key('i:' .. k), 'v', 1)
    redis.call('ZADD', key('pending'), 'NX', now, 'i' .. k)
    redis.call('ZADD', key('due'), 'LT', now, 'i' .. k)
  end
end
return 1
