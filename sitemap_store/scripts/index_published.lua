-- Notes that a version of an index file is at the output, lets shards unlink the files that it no longer
-- names, and gives the lease back.
-- ARGV: 1 now, 2 worker, 3 index number k, 4 version, 5 etag, 6 when it was claimed, 7 pause ms until the
--       next rewrite, 8 how many bytes were written
-- Returns {"ok" | "superseded", shards to wake…} ("i<k>" stands for the index itself).
local now, worker, k, version = clock(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local member, index = 'i' .. k, key('i:' .. k)
redis.call('HDEL', key('stale'), member .. ' ' .. worker)
if not holds(member, worker) then
  redis.call('HSET', index, 'check', 1)
  redis.call('ZADD', key('pending'), 'NX', now, member)
  if make_due(member, now, now) then return {'superseded', member} end
  return {'superseded'}
end
redis.call('HDEL', key('leases'), member)
redis.call('HSET', index, 'pv', version, 'petag', ARGV[5], 'next', now + tonumber(ARGV[7]))
redis.call('HDEL', index, 'check')
local since = redis.call('ZSCORE', key('pending'), member)
if since then count_lag(now, 'index', tonumber(since)) end
redis.call('HINCRBY', key('stats'), 'index_rewrites', 1)
redis.call('HINCRBY', key('stats'), 'bytes', ARGV[8])
local wake = {'ok'}
if tonumber(redis.call('HGET', index, 'v')) > version then
  redis.call('ZADD', key('pending'), redis.call('HGET', index, 'since') or ARGV[6], member)
  redis.call('ZADD', key('due'), now + tonumber(ARGV[7]), member)
  if make_due(member, now + tonumber(ARGV[7]), now) then wake[#wake + 1] = member end
else
  redis.call('ZREM', key('pending'), member)
  redis.call('ZREM', key('due'), member)
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', key('leaving:' .. k), '-inf', version)) do
  redis.call('ZREM', key('leaving:' .. k), id)
  redis.call('ZADD', key('pending'), 'NX', now, id)
  if make_due(id, now, now) then wake[#wake + 1] = id end
end
return wake
