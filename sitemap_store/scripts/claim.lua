-- Takes the lease of a due shard and hands out all that a rewrite needs, in one consistent view.
-- ARGV: 1 now, 2 worker, 3 lease ms, 4 shard id, 5 the most bytes of log to hand out
-- Returns {"work", now, state id, meta (flat), snapshot or false, names to unlink, log elements},
--         or {"idle"}, {"busy"}, {"early"} with nothing taken.
local now, worker, id = clock(ARGV[1]), ARGV[2], ARGV[4]
redis.call('HDEL', key('scheduled'), id)
local meta = redis.call('HMGET', key('s:' .. id), 'v', 'pv', 'old', 'check', 'index')
if not meta[1] then
  redis.call('ZREM', key('due'), id)
  redis.call('ZREM', key('pending'), id)
  return {'idle'}
end
local due = redis.call('ZSCORE', key('due'), id)
if due and tonumber(due) > now then return {'early'} end
local waiting = redis.call('ZSCORE', key('leaving:' .. meta[5]), id)
local unlink = (meta[3] and not waiting) and meta[3] or ''
local purge = redis.call('ZSCORE', key('purge'), id)
local idle = redis.call('LLEN', key('log:' .. id)) == 0 and meta[1] == meta[2] and unlink == ''
  and not meta[4] and not (purge and tonumber(purge) <= now)
local held = redis.call('HGET', key('leases'), id)
if idle and not held then
  redis.call('ZREM', key('due'), id)
  redis.call('ZREM', key('pending'), id)
  return {'idle'}
end
if not lease(id, worker, now, tonumber(ARGV[3])) then return {'busy'} end

local elements, bytes, start = {}, 0, 0
while bytes < tonumber(ARGV[5]) do
  local chunk = redis.call('LRANGE', key('log:' .. id), start, start + 31)
  for _, element in ipairs(chunk) do
    if bytes >= tonumber(ARGV[5]) then break end
    elements[#elements + 1] = element
    bytes = bytes + #element
  end
  if #chunk < 32 then break end
  start = start + 32
end
return {'work', now, redis.call('HGET', key('state'), 'id') or '',
  redis.call('HGETALL', key('s:' .. id)), redis.call('GET', key('snap:' .. id)), unlink, elements}
