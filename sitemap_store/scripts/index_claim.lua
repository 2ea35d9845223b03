-- Takes the lease of an index file and hands out what it must list.
-- ARGV: 1 now, 2 worker, 3 lease ms, 4 index number k
-- Returns {"work", now, state id, version, published etag, listing (flat: shard id, "section number lm file")},
--         or {"idle"}, {"busy"}, {"early"} with nothing taken.
local now, worker, k = clock(ARGV[1]), ARGV[2], ARGV[4]
local member, index = 'i' .. k, key('i:' .. k)
redis.call('HDEL', key('scheduled'), member)
local meta = redis.call('HMGET', index, 'v', 'pv', 'petag', 'check')
local due = redis.call('ZSCORE', key('due'), member)
if due and tonumber(due) > now then return {'early'} end
if not meta[1] or (meta[1] == meta[2] and not meta[4] and redis.call('HEXISTS', key('leases'), member) == 0) then
  redis.call('ZREM', key('due'), member)
  redis.call('ZREM', key('pending'), member)
  return {'idle'}
end
if not lease(member, worker, now, tonumber(ARGV[3])) then return {'busy'} end
redis.call('HDEL', index, 'since') -- what changes from now on is not in this listing
return {'work', now, redis.call('HGET', key('state'), 'id') or '', meta[1], meta[3] or '',
  redis.call('HGETALL', key('idx:' .. k))}
