-- Leases an index file and hands out what it must list.
-- ARGV: 1 now, 2 worker, 3 lease ms, 4 index number k, 5 number of the worker's settings
-- While files that it lists are missing at the output and are being put back, it waits for them; those that
-- are not back when its patience ends are left out.
-- Returns {"work", now, state id, lease number, generation, published etag, listing (flat: shard id,
--          "section number lm file")}, or {"idle"}, {"busy"}, {"early"}, {"outdated"} with nothing taken.
local WAIT_MS = 250
local now, worker, k = clock(ARGV[1]), ARGV[2], ARGV[4]
local member, index = 'i' .. k, keys.index(k)
redis.call('HDEL', keys.scheduled(), member)
local due = redis.call('ZSCORE', keys.due(), member)
if due and tonumber(due) > now then return {'early'} end
local meta = redis.call('HMGET', index, 'wanted', 'published', 'petag', 'hold')
if not meta[1] or (meta[1] == meta[2] and redis.call('HEXISTS', keys.leases(), member) == 0) then
  redis.call('ZREM', keys.due(), member)
  redis.call('ZREM', keys.pending(), member)
  return {'idle'}
end
if outdated(ARGV[5]) then return {'outdated'} end
if redis.call('SCARD', keys.missing(k)) > 0 then
  if now < tonumber(meta[4] or 0) then
    redis.call('ZADD', keys.due(), now + WAIT_MS, member)
    return {'early'}
  end
  for _, id in ipairs(redis.call('SMEMBERS', keys.missing(k))) do redis.call('HDEL', keys.listing(k), id) end
  redis.call('DEL', keys.missing(k))
end
local number = lease(member, worker, now, tonumber(ARGV[3]))
if not number then return {'busy'} end
redis.call('HDEL', index, 'since', 'hold') -- what changes from now on is not in this listing
return {'work', now, redis.call('HGET', keys.state(), 'id') or '', number, redis.call('HGET', index, 'wanted'),
  meta[3] or '', redis.call('HGETALL', keys.listing(k))}
