-- Takes one published shard into an empty partition: its name, its place in the index and its URLs' seats.
-- ARGV: 1 now, 2 section, 3 number, 4 index number k, 5 file, 6 lastmod ms, 7 etag, 8 snapshot, 9 urls,
--       10 bytes, 11 sources joined by LF, 12 partitions, 13 whether to render it again,
--       14 the restore's token (drain), 15… digests
-- The shards of a section come in the order of their numbers: a call that is repeated changes nothing.
-- Returns the shard's id, 0 for one that is here already, or -1 when another restore has begun or it is over.
local FIRST, CHUNK = 15, 256
if redis.call('HGET', key('state'), 'restoring') ~= ARGV[14] then return -1 end
local now, section, number, k = clock(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local counted = math.floor((number - 1) / tonumber(ARGV[12])) + 1
if counted <= tonumber(redis.call('HGET', key('numbers'), section) or 0) then return 0 end
local id = redis.call('HINCRBY', key('state'), 'next', 1)
redis.call('HSET', key('s:' .. id), 'section', section, 'number', number, 'index', k, 'v', 1, 'wanted', 1, 'published', 1,
  'urls', ARGV[9], 'dead', 0, 'bytes', ARGV[10], 'seats', #ARGV - FIRST + 1, 'lm', ARGV[6], 'rest', 0, 'etag', ARGV[7],
  'petag', ARGV[7], 'file', ARGV[5], 'sources', ARGV[11])
redis.call('SET', key('snap:' .. id), ARGV[8])
redis.call('ZADD', key('shards'), id, id)
redis.call('SADD', key('sections'), section)
redis.call('HINCRBY', key('sec:' .. section), 'shards', 1)
redis.call('HINCRBY', key('sec:' .. section), 'urls', ARGV[9])
redis.call('HINCRBY', key('sec:' .. section), 'bytes', ARGV[10])
redis.call('HINCRBY', key('index_sizes'), k, 1)
redis.call('HSET', key('idx:' .. k), id, table.concat({section, number, ARGV[6], ARGV[5]}, ' '))
redis.call('HINCRBY', key('i:' .. k), 'wanted', 1)
if ARGV[13] == '1' then
  redis.call('HINCRBY', key('s:' .. id), 'wanted', 1)
  redis.call('ZADD', key('due'), now, id)
  redis.call('ZADD', key('pending'), 'NX', now, id)
end
-- The highest number of a section is its open shard, as long as it has room.
redis.call('HSET', key('numbers'), section, counted)
redis.call('HSET', key('open'), section, id)
local n = tonumber(redis.call('HGET', key('state'), 'buckets') or 1)
local seats = tonumber(redis.call('HGET', key('state'), 'seats') or 0)
-- The directory grows after every few: a bucket of thousands would be more than Lua can unpack.
for from = FIRST, #ARGV, CHUNK do
  local size, split = level(n)
  for i = from, math.min(from + CHUNK - 1, #ARGV) do redis.call('HSET', bucket(ARGV[i], size, split), ARGV[i], id) end
  seats = seats + math.min(CHUNK, #ARGV - from + 1)
  n = grow(n, seats)
end
redis.call('HSET', key('state'), 'buckets', n, 'seats', seats)
return id
