-- Makes a fold's result the shard's state, if the caller still holds the lease and the version is the one
-- that it read. With a split, the moved entries become a new shard of the section in the same step, and
-- records of theirs that came meanwhile go to the new shard's log.
-- ARGV: 1 now, 2 worker, 3 shard id, 4 version read, 5 log elements folded, 6 records folded,
--       7 snapshot ("" keeps it), 8 urls, 9 tombstones, 10 bytes, 11 etag, 12 sources joined by LF,
--       13 purge time or 0, 14 index_size, 15 partitions, 16 p, 17 number of freed seats f,
--       18 lease number, 19 min_interval ms, 20… f pairs of digest and loc; then, for a split, snapshot,
--       urls, tombstones, sources, and pairs of digest and loc to the end
-- Returns {"ok", version, id of the new shard or ""} or {"lost"}.
local now, worker, id, version = clock(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local shard = keys.shard(id)
local meta = redis.call('HMGET', shard, 'v', 'section', 'urls', 'bytes', 'rest')
if not meta[1] or tonumber(meta[1]) ~= version or not holds(id, worker, ARGV[18]) then
  return {'lost'}
end
-- Of a snapshot that stays too: a split gives none to its new shard, whose first rewrite changes nothing.
if ARGV[13] == '0' then
  redis.call('ZREM', keys.purge(), id)
else
  redis.call('ZADD', keys.purge(), ARGV[13], id)
end
if ARGV[7] == '' then return {'ok', version, ''} end

local section, state = meta[2], keys.state()
local n = tonumber(redis.call('HGET', state, 'buckets') or 1)
local size, split_to = level(n)
redis.call('LTRIM', keys.log(id), tonumber(ARGV[5]), -1)
redis.call('HINCRBY', state, 'logged', 0 - tonumber(ARGV[6]))
redis.call('SET', keys.snapshot(id), ARGV[7])
redis.call('HSET', shard, 'v', version + 1, 'urls', ARGV[8], 'dead', ARGV[9], 'bytes', ARGV[10],
  'etag', ARGV[11], 'sources', ARGV[12],
  'rest', format('%d', math.max(tonumber(meta[5] or 0), now) + tonumber(ARGV[19])))
redis.call('HINCRBY', keys.section(section), 'bytes', tonumber(ARGV[10]) - tonumber(meta[4]))
-- What came into the log since it was read: a URL in there keeps its seat.
local function loc_of(record)
  return string.match(record, '^.([^\t]*)')
end
local f = tonumber(ARGV[17])
local first_moved = 20 + 2 * f
local split = #ARGV >= first_moved
local rest = {}
if f > 0 or split then rest = redis.call('LRANGE', keys.log(id), 0, -1) end
local busy = {}
for _, element in ipairs(rest) do
  for record in string.gmatch(element, '\n([^\n]+)') do busy[loc_of(record)] = true end
end
local freed = 0
for i = 20, 19 + 2 * f, 2 do
  if not busy[ARGV[i + 1]] then
    freed = freed + redis.call('HDEL', bucket(ARGV[i], size, split_to), ARGV[i])
  end
end
if freed > 0 then
  redis.call('HINCRBY', shard, 'seats', -freed)
  redis.call('HINCRBY', state, 'seats', -freed)
end
local urls = tonumber(ARGV[8])
local new = ''

if split then
  new = tostring(new_shard(section, now, tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16])))
  local moved, count = {}, 0
  for i = first_moved + 4, #ARGV, 2 do
    redis.call('HSET', bucket(ARGV[i], size, split_to), ARGV[i], new)
    moved[ARGV[i + 1]] = true
    count = count + 1
  end
  redis.call('SET', keys.snapshot(new), ARGV[first_moved])
  redis.call('HSET', keys.shard(new), 'v', 1, 'urls', ARGV[first_moved + 1], 'dead', ARGV[first_moved + 2],
    'sources', ARGV[first_moved + 3], 'seats', count)
  redis.call('HINCRBY', shard, 'seats', -count)
  urls = urls + tonumber(ARGV[first_moved + 1])
  if #rest > 0 then
    redis.call('DEL', keys.log(id))
    for _, element in ipairs(rest) do
      local stay, go = {}, {}
      local stamp = string.match(element, '^[^\n]*')
      for record in string.gmatch(element, '\n([^\n]+)') do
        local list = moved[loc_of(record)] and go or stay
        list[#list + 1] = record
      end
      if #stay > 0 then redis.call('RPUSH', keys.log(id), stamp .. '\n' .. table.concat(stay, '\n')) end
      if #go > 0 then redis.call('RPUSH', keys.log(new), stamp .. '\n' .. table.concat(go, '\n')) end
    end
  end
  redis.call('HINCRBY', keys.shard(new), 'wanted', 1)
  keep_file_until(id, new)
  redis.call('ZADD', keys.due(), now, new)
  redis.call('ZADD', keys.pending(), redis.call('ZSCORE', keys.pending(), id) or now, new)
  -- New URLs of the section go to the new shard from now on.
  if redis.call('HGET', keys.open_shards(), section) == id then redis.call('HSET', keys.open_shards(), section, new) end
end
redis.call('HINCRBY', keys.section(section), 'urls', urls - tonumber(meta[3]))
return {'ok', version + 1, new}
