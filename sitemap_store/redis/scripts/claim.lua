-- Leases a due shard and hands out all that a rewrite needs, in one consistent view.
-- ARGV: 1 now, 2 worker, 3 lease ms, 4 shard id, 5 the most bytes of log to hand out, 6 number of the
--       worker's settings
-- Returns {"work", now, state id, lease number, generation, meta (flat), snapshot or false, names to unlink,
--          log elements}, or {"idle"}, {"busy"}, {"early"}, {"outdated"} with nothing taken.
-- A shard that was split or merged keeps its file until an index names the file that has what moved.
local WAIT_MS = 100
local now, worker, id = clock(ARGV[1]), ARGV[2], ARGV[4]
local shard = keys.shard(id)
redis.call('HDEL', keys.scheduled(), id)
local meta = redis.call('HMGET', shard, 'wanted', 'published', 'old', 'index', 'after')
if not meta[1] or (meta[1] == meta[2] and redis.call('HEXISTS', keys.leases(), id) == 0) then
  redis.call('ZREM', keys.due(), id)
  redis.call('ZREM', keys.pending(), id)
  return {'idle'}
end
local due = redis.call('ZSCORE', keys.due(), id)
if due and tonumber(due) > now then return {'early'} end
if outdated(ARGV[6]) then return {'outdated'} end
if meta[5] then
  if not is_listed(string.match(meta[5], '^(%d+) (%d+)$')) then
    redis.call('ZADD', keys.due(), now + WAIT_MS, id)
    return {'early'}
  end
  redis.call('HDEL', shard, 'after')
end
local number = lease(id, worker, now, tonumber(ARGV[3]))
if not number then return {'busy'} end
redis.call('HDEL', shard, 'urgent')

local generation = redis.call('HGET', shard, 'wanted')
local unlink = meta[3] and not redis.call('ZSCORE', keys.leaving(meta[4]), id) and meta[3] or ''
local elements, bytes, start, all = {}, 0, 0, false
while not all and bytes < tonumber(ARGV[5]) do
  local chunk = redis.call('LRANGE', keys.log(id), start, start + 31)
  for _, element in ipairs(chunk) do
    elements[#elements + 1] = element
    bytes = bytes + #element
    if bytes >= tonumber(ARGV[5]) then break end
  end
  all = #chunk < 32
  start = start + 32
end
if redis.call('LLEN', keys.log(id)) > #elements then redis.call('HINCRBY', shard, 'wanted', 1) end
return {'work', now, redis.call('HGET', keys.state(), 'id') or '', number, generation,
  redis.call('HGETALL', shard), redis.call('GET', keys.snapshot(id)), unlink, elements}
