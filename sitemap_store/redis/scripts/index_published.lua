-- Notes that a generation of an index file is at the output, lets shards unlink the files that it no longer
-- names, and gives the lease back.
-- ARGV: 1 now, 2 worker, 3 lease number, 4 index number k, 5 generation, 6 number of the worker's settings,
--       7 etag, 8 when it was claimed, 9 ms until the next rewrite in the long run, 10 how many bytes were written
-- Returns {"ok" | "lost", members to wake…}.
local now, worker, k, generation = clock(ARGV[1]), ARGV[2], ARGV[4], tonumber(ARGV[5])
local member, index = 'i' .. k, keys.index(k)
if not holds(member, worker, ARGV[3]) then
  want_soon(member, now)
  return {'lost'}
end
redis.call('HDEL', keys.leases(), member)
local pause = tonumber(ARGV[9])
-- What lies further ahead was set before the server's clock was set back.
local before = math.min(tonumber(redis.call('HGET', index, 'rest') or 0), now + BURST * pause)
local rest = math.max(before, now) + pause
local next = math.max(now, rested(rest, pause))
local published = tonumber(redis.call('HGET', index, 'published') or 0)
redis.call('HSET', index, 'published', math.max(published, generation), 'petag', ARGV[7], 'config', ARGV[6],
  'rest', format('%d', rest), 'next', format('%d', next))
redis.call('HDEL', index, 'fails')
redis.call('HDEL', keys.aside(), member)
record_index(now, tonumber(redis.call('ZSCORE', keys.pending(), member) or now), ARGV[10])
local wake = {'ok'}
if tonumber(redis.call('HGET', index, 'wanted')) > generation then
  redis.call('ZADD', keys.pending(), redis.call('HGET', index, 'since') or ARGV[8], member)
  redis.call('ZADD', keys.due(), next, member)
  if make_due(member, next, now) then wake[#wake + 1] = member end
else
  redis.call('ZREM', keys.pending(), member)
  redis.call('ZREM', keys.due(), member)
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', keys.leaving(k), '-inf', generation)) do
  redis.call('ZREM', keys.leaving(k), id)
  if want(id, now, now) then wake[#wake + 1] = id end
end
return wake
