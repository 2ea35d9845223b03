-- Takes one shard of a backup, or of the published tree, into an empty partition: its name, its place in the
-- index, its URLs' seats, and its log.
-- ARGV: 1 now, 2 the restore's token (drain), 3 shard id, 4 partitions, 5 the fields of its hash as a flat JSON
--       array of texts, 6 snapshot or "", 7 purge time or 0, 8 how many events its log holds, 9 the digests of
--       its URLs end to end, 10… the elements of its log
-- A call that is repeated changes nothing.
-- Returns 1, 0 for a shard that is here already, or -1 when another restore has begun or it is over.
local FIRST_ELEMENT, WIDTH, CHUNK = 10, 10, 256
if redis.call('HGET', keys.state(), 'restoring') ~= ARGV[2] then return -1 end
local id, shard, state = ARGV[3], keys.shard(ARGV[3]), keys.state()
if redis.call('EXISTS', shard) == 1 then return 0 end
local flat, meta = cjson.decode(ARGV[5]), {}
for i = 1, #flat, 2 do meta[flat[i]] = flat[i + 1] end
local digests, section, k = ARGV[9], meta.section, meta.index
redis.call('HSET', shard, 'seats', #digests / WIDTH, unpack(flat))
if ARGV[6] ~= '' then redis.call('SET', keys.snapshot(id), ARGV[6]) end
if ARGV[7] ~= '0' then redis.call('ZADD', keys.purge(), ARGV[7], id) end
for i = FIRST_ELEMENT, #ARGV do redis.call('RPUSH', keys.log(id), ARGV[i]) end
redis.call('HINCRBY', state, 'logged', ARGV[8])
redis.call('ZADD', keys.shards(), id, id)
redis.call('SADD', keys.sections(), section)
redis.call('HINCRBY', keys.section(section), 'shards', 1)
redis.call('HINCRBY', keys.section(section), 'urls', meta.urls)
redis.call('HINCRBY', keys.section(section), 'bytes', meta.bytes)
redis.call('HINCRBY', keys.index_sizes(), k, 1)
redis.call('HINCRBY', keys.index(k), 'wanted', 1)
if meta.file ~= '' then
  redis.call('HSET', keys.listing(k), id, table.concat({section, meta.number, meta.lm, meta.file}, ' '))
end
if meta.wanted ~= meta.published then
  redis.call('ZADD', keys.due(), clock(ARGV[1]), id)
  redis.call('ZADD', keys.pending(), clock(ARGV[1]), id)
end
if tonumber(id) > tonumber(redis.call('HGET', state, 'next') or 0) then redis.call('HSET', state, 'next', id) end
-- The highest number of a section is its open shard, as long as it has room and nobody knows better.
local counted = math.floor((tonumber(meta.number) - 1) / tonumber(ARGV[4])) + 1
if counted > tonumber(redis.call('HGET', keys.numbers(), section) or 0) then
  redis.call('HSET', keys.numbers(), section, counted)
  redis.call('HSET', keys.open_shards(), section, id)
end
local n = tonumber(redis.call('HGET', state, 'buckets') or 1)
local seats = tonumber(redis.call('HGET', state, 'seats') or 0)
-- The directory grows after every few: a bucket of thousands would be more than Lua can unpack.
for from = 1, #digests, CHUNK * WIDTH do
  local size, split = level(n)
  local last = math.min(from + CHUNK * WIDTH, #digests + 1)
  for at = from, last - 1, WIDTH do
    local digest = sub(digests, at, at + WIDTH - 1)
    redis.call('HSET', bucket(digest, size, split), digest, id)
  end
  seats = seats + (last - from) / WIDTH
  n = grow(n, seats)
end
redis.call('HSET', state, 'buckets', n, 'seats', seats)
return 1
