-- Makes shards one: the last of them gets all entries, tombstones, seats and what came into the logs, in one
-- step, if the caller still holds all the leases and the versions are those that it read. The leases end with it.
-- The others are empty then, and keep their files until an index names the last one's file with all of it.
-- ARGV: 1 now, 2 worker, 3 snapshot, 4 urls, 5 tombstones, 6 bytes, 7 etag, 8 sources joined by LF,
--       9 purge time or 0, 10 the digests of what moves, end to end, 11… for each shard its id, version and lease
--       number
-- Returns "ok" or "lost".
local now, worker, WIDTH = clock(ARGV[1]), ARGV[2], 10
for i = 11, #ARGV, 3 do
  if redis.call('HGET', keys.shard(ARGV[i]), 'v') ~= ARGV[i + 1] or not holds(ARGV[i], worker, ARGV[i + 2]) then
    return 'lost'
  end
end
local into, digests = ARGV[#ARGV - 2], ARGV[10]
local target = keys.shard(into)
local before = redis.call('HMGET', target, 'section', 'urls', 'bytes')
local section, urls, bytes, seats = before[1], tonumber(before[2]), tonumber(before[3]), 0

local size, split = level(tonumber(redis.call('HGET', keys.state(), 'buckets') or 1))
for at = 1, #digests, WIDTH do
  local digest = sub(digests, at, at + WIDTH - 1)
  redis.call('HSET', bucket(digest, size, split), digest, into)
end
for i = 11, #ARGV - 3, 3 do
  local id = ARGV[i]
  local from, log = keys.shard(id), keys.log(id)
  local meta = redis.call('HMGET', from, 'urls', 'bytes', 'seats')
  urls, bytes, seats = urls + tonumber(meta[1]), bytes + tonumber(meta[2]), seats + tonumber(meta[3])
  for _, element in ipairs(redis.call('LRANGE', log, 0, -1)) do redis.call('RPUSH', keys.log(into), element) end
  redis.call('DEL', log, keys.snapshot(id))
  redis.call('HSET', from, 'v', ARGV[i + 1] + 1, 'urls', 0, 'dead', 0, 'bytes', 0, 'seats', 0, 'etag', '', 'sources', '')
  redis.call('HDEL', from, 'urgent')
  redis.call('ZREM', keys.purge(), id)
  local since = redis.call('ZSCORE', keys.pending(), id)
  if since then redis.call('ZADD', keys.pending(), 'LT', since, into) end
end
redis.call('SET', keys.snapshot(into), ARGV[3])
redis.call('HSET', target, 'v', ARGV[#ARGV - 1] + 1, 'urls', ARGV[4], 'dead', ARGV[5], 'bytes', ARGV[6],
  'etag', ARGV[7], 'sources', ARGV[8])
redis.call('HINCRBY', target, 'seats', seats)
if ARGV[9] == '0' then
  redis.call('ZREM', keys.purge(), into)
else
  redis.call('ZADD', keys.purge(), ARGV[9], into)
end
redis.call('HINCRBY', keys.section(section), 'urls', tonumber(ARGV[4]) - urls)
redis.call('HINCRBY', keys.section(section), 'bytes', tonumber(ARGV[6]) - bytes)
want_soon(into, now)
redis.call('HDEL', keys.leases(), into)
for i = 11, #ARGV - 3, 3 do
  want_soon(ARGV[i], now)
  redis.call('HDEL', keys.leases(), ARGV[i])
  keep_file_until(ARGV[i], into)
end
return 'ok'
