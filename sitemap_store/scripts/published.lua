-- Notes that a version of a shard is at the output (or, with no file name, that the shard is empty and the
-- index must drop it), brings the index's listing up to date, and gives the lease back.
-- ARGV: 1 now, 2 worker, 3 shard id, 4 version, 5 file name or "", 6 etag, 7 min_interval ms,
--       8 when the shard was claimed, 9 names that were unlinked, joined by a space, 10 "1" when the
--       file's bytes were changed just now, 11 how many bytes were written, 12 how many events were folded
-- Returns {"ok" | "superseded", index file to wake or "", "shard" when it must be woken at once or ""}.
local now, worker, id, version, file = clock(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local shard = key('s:' .. id)
local meta = redis.call('HMGET', shard, 'v', 'petag', 'lm', 'file', 'old', 'index', 'section', 'number',
  'dead', 'rw', 'seats', 'urls', 'pv', 'check')
redis.call('HDEL', key('stale'), id .. ' ' .. worker)
if not meta[1] then
  if holds(id, worker) then redis.call('HDEL', key('leases'), id) end
  return {'ok', '', ''}
end
if not holds(id, worker) or tonumber(meta[1]) ~= version then
  -- The output may hold our old bytes now: whoever has the shard renders it once more.
  redis.call('HSET', shard, 'check', 'late')
  if holds(id, worker) then redis.call('HDEL', key('leases'), id) end
  redis.call('ZADD', key('due'), now, id)
  redis.call('ZADD', key('pending'), 'NX', now, id)
  return {'superseded', '', make_due(id, now, now) and 'shard' or ''}
end

local k, before, lm = meta[6], meta[4] or '', tonumber(meta[3])
local member = 'i' .. k
local index = key('i:' .. k)
local listed = redis.call('HGET', key('idx:' .. k), id)
local since = redis.call('ZSCORE', key('pending'), id) or now

-- Names that the index must lose before their files may go; minus what is gone, minus what is back.
local old, keep = (meta[5] or ''), {}
if before ~= '' and before ~= file then old = old .. ' ' .. before end
for name in string.gmatch(old, '%S+') do
  local gone = name == file
  for unlinked in string.gmatch(ARGV[9], '%S+') do gone = gone or unlinked == name end
  if not gone then keep[#keep + 1] = name end
end

-- Bytes that are the published ones again changed all the same when others were put there in between: by a
-- worker that died before it said so, or by one that came late.
local between = ARGV[10] == '1' and (tonumber(meta[13]) ~= version or meta[14] == 'late')
if file ~= '' and ((meta[2] or '') ~= ARGV[6] or between) then lm = math.max(now, lm + 1) end
redis.call('HSET', shard, 'pv', version, 'petag', ARGV[6], 'lm', lm, 'file', file)
redis.call('HDEL', shard, 'check')
local wants = file ~= '' and table.concat({meta[7], meta[8], string.format('%d', lm), file}, ' ') or false
local wake = ''
if wants ~= listed then
  if wants then redis.call('HSET', key('idx:' .. k), id, wants) else redis.call('HDEL', key('idx:' .. k), id) end
  local v = redis.call('HINCRBY', index, 'v', 1)
  redis.call('ZADD', key('pending'), 'LT', since, member)
  local known = tonumber(redis.call('HGET', index, 'since') or since)
  redis.call('HSET', index, 'since', string.format('%d', math.min(known, since)))
  if before ~= '' and before ~= file then redis.call('ZADD', key('leaving:' .. k), v, id) end
  if make_due(member, math.max(now, tonumber(redis.call('HGET', index, 'next') or 0)), now) then wake = k end
  redis.call('HSET', key('stats'), 'published', now)
  redis.call('HINCRBY', key('stats'), 'rewrites', 1)
  redis.call('HINCRBY', key('stats'), 'bytes', ARGV[11])
  redis.call('HSET', key('sec:' .. meta[7]), 'published', now)
  count_minute(now, 'rewrites', 1)
  redis.call('XADD', key('feed'), 'MAXLEN', '~', 200, '*', 'file', file ~= '' and file or before, 'section', meta[7],
    'urls', meta[12], 'events', ARGV[12], 'bytes', ARGV[11], 'lag', count_lag(now, 'shard', tonumber(since)),
    'at', string.format('%d', now), 'gone', file == '' and '1' or '')
end
if #keep > 0 then
  redis.call('HSET', shard, 'old', table.concat(keep, ' '))
else
  redis.call('HDEL', shard, 'old')
  redis.call('ZREM', key('leaving:' .. k), id)
end

redis.call('HDEL', key('leases'), id)
local again = ''
if redis.call('LLEN', key('log:' .. id)) > 0 then
  local at = tonumber(meta[10]) + tonumber(ARGV[7])
  redis.call('ZADD', key('due'), at, id)
  redis.call('ZADD', key('pending'), ARGV[8], id)
  if make_due(id, at, now) then again = 'shard' end
else
  redis.call('ZREM', key('due'), id)
  redis.call('ZREM', key('pending'), id)
  local open = redis.call('HGET', key('open'), meta[7])
  if meta[12] == '0' and meta[9] == '0' and meta[11] == '0' and #keep == 0 and file == '' and open ~= id then
    redis.call('DEL', shard, key('snap:' .. id))
    redis.call('ZREM', key('shards'), id)
    redis.call('ZREM', key('purge'), id)
    redis.call('HINCRBY', key('sec:' .. meta[7]), 'shards', -1)
    redis.call('HINCRBY', key('index_sizes'), k, -1)
    if tonumber(k) < tonumber(redis.call('HGET', key('state'), 'index_hint') or 1) then
      redis.call('HSET', key('state'), 'index_hint', k)
    end
  end
end
return {'ok', wake, again}
