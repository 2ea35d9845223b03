-- Notes that a generation of a shard is at the output (or, with no file name, that the shard is empty and the
-- index must drop it), brings the index's listing up to date, and gives the lease back.
-- ARGV: 1 now, 2 worker, 3 lease number, 4 shard id, 5 generation, 6 number of the worker's settings,
--       7 file name or "", 8 etag, 9 what the put did: "same", "new" (there was none), "over" (other bytes
--       were there), 10 bytes written, 11 events folded, 12 when it was claimed, 13 names that were unlinked,
--       joined by a space, 14 min_interval ms, 15 index_size,
--       16 what it has that the site no longer covers, as JSON, or ""
-- Returns {"ok" | "lost", members to wake…}.
local now, worker, number, id, generation = clock(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local file, etag, put, min_interval = ARGV[7], ARGV[8], ARGV[9], tonumber(ARGV[14])
local shard = keys.shard(id)
local meta = redis.call('HMGET', shard, 'wanted', 'petag', 'lm', 'file', 'old', 'index', 'section', 'number',
  'dead', 'rest', 'seats', 'urls', 'urgent', 'published')
if not holds(id, worker, number) then
  -- The output may hold our old bytes now.
  if meta[1] then want_soon(id, now) end
  return {'lost'}
end
redis.call('HDEL', keys.leases(), id)
if not meta[1] then return {'ok'} end

local k, before, lm = meta[6], meta[4] or '', tonumber(meta[3])
local since = redis.call('ZSCORE', keys.pending(), id) or now
local answer = {'ok'}
local function want_index(n)
  local index, known = keys.index(n), nil
  known = tonumber(redis.call('HGET', index, 'since') or since)
  redis.call('HSET', index, 'since', format('%d', math.min(known, since)))
  local at = math.max(now, tonumber(redis.call('HGET', index, 'next') or 0))
  if want('i' .. n, at, now, since) then answer[#answer + 1] = 'i' .. n end
  return redis.call('HGET', index, 'wanted')
end

-- An index file that waits for files that were missing goes on when the last of them is back.
local function found_again(n)
  if redis.call('SREM', keys.missing(n), id) == 0 or redis.call('SCARD', keys.missing(n)) > 0 then return end
  local index = redis.call('HMGET', keys.index(n), 'wanted', 'published')
  redis.call('HDEL', keys.index(n), 'hold')
  if index[1] ~= index[2] and make_due('i' .. n, now, now) then answer[#answer + 1] = 'i' .. n end
end

-- Names that the index must lose before their files may go; minus what is gone, minus what is back.
local old, keep = (meta[5] or ''), {}
if before ~= '' and before ~= file then old = old .. ' ' .. before end
for name in string.gmatch(old, '%S+') do
  local gone = name == file
  for unlinked in string.gmatch(ARGV[13], '%S+') do gone = gone or unlinked == name end
  if not gone then keep[#keep + 1] = name end
end

-- Readers may have had other bytes than these since the last lastmod: by a change, or by somebody who wrote
-- there behind our back or too late. A file that was merely gone comes back with its lastmod.
if file ~= '' and (meta[2] ~= etag or put == 'over') then lm = math.max(now, lm + 1) end
redis.call('HSET', shard, 'petag', etag, 'lm', format('%d', lm), 'file', file, 'config', ARGV[6],
  'published', math.max(generation, tonumber(meta[14])))
redis.call('HDEL', shard, 'fails')
if ARGV[16] == '' then
  redis.call('HDEL', keys.uncovered(), id)
else
  redis.call('HSET', keys.uncovered(), id, ARGV[16])
end
redis.call('HDEL', keys.aside(), id)

-- An index file that lists more than it may (index_size was lowered) gives this shard to another one. The
-- other one is woken first; one that still has a name to lose waits for that.
if #keep == 0 and tonumber(redis.call('HGET', keys.index_sizes(), k) or 0) > tonumber(ARGV[15]) then
  local from = k
  k = tostring(place(tonumber(ARGV[15])))
  redis.call('HINCRBY', keys.index_sizes(), from, -1)
  redis.call('HSET', shard, 'index', k)
  if file ~= '' then
    redis.call('HSET', keys.listing(k), id, table.concat({meta[7], meta[8], format('%d', lm), file}, ' '))
    redis.call('HSET', shard, 'listed', want_index(k))
  end
  found_again(from)
  if redis.call('HDEL', keys.listing(from), id) == 1 then want_index(from) end
end

local wants = file ~= '' and table.concat({meta[7], meta[8], format('%d', lm), file}, ' ') or false
local listed = redis.call('HGET', keys.listing(k), id)
found_again(k)
if wants ~= listed then
  if wants then redis.call('HSET', keys.listing(k), id, wants) else redis.call('HDEL', keys.listing(k), id) end
  local wanted = want_index(k)
  redis.call('HSET', shard, 'listed', wanted)
  if before ~= '' and before ~= file then redis.call('ZADD', keys.leaving(k), wanted, id) end
  record_published(now, meta[7], file, before, meta[12], ARGV[11], ARGV[10], tonumber(since))
end
if #keep > 0 then
  redis.call('HSET', shard, 'old', table.concat(keep, ' '))
else
  redis.call('HDEL', shard, 'old')
  redis.call('ZREM', keys.leaving(k), id)
end

if tonumber(meta[1]) > generation then
  local at = meta[13] and now or math.max(now, rested(meta[10], min_interval))
  redis.call('ZADD', keys.due(), at, id)
  redis.call('ZADD', keys.pending(), ARGV[12], id)
  if make_due(id, at, now) then answer[#answer + 1] = id end
  return answer
end
redis.call('ZREM', keys.due(), id)
redis.call('ZREM', keys.pending(), id)
local retired = meta[12] == '0' and meta[9] == '0' and meta[11] == '0' and #keep == 0 and file == ''
if retired and redis.call('HGET', keys.open_shards(), meta[7]) ~= id then
  redis.call('DEL', shard, keys.snapshot(id))
  redis.call('ZREM', keys.shards(), id)
  redis.call('ZREM', keys.purge(), id)
  redis.call('HINCRBY', keys.section(meta[7]), 'shards', -1)
  leave(k)
end
return answer
