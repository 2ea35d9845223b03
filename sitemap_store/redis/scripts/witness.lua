-- Takes the published index file for what readers have seen, when Redis came back younger than it: no lastmod
-- goes behind it, and a shard that it shows as newer is wanted.
-- ARGV: 1 now, 2 index number k, 3… pairs of shard id and the lastmod (ms) that is published
local now, k = clock(ARGV[1]), ARGV[2]
for i = 3, #ARGV, 2 do
  local id, lm = ARGV[i], tonumber(ARGV[i + 1])
  local meta = redis.call('HMGET', keys.shard(id), 'lm', 'section', 'number', 'file')
  if meta[1] and tonumber(meta[1]) < lm then
    redis.call('HSET', keys.shard(id), 'lm', format('%d', lm))
    redis.call('HDEL', keys.shard(id), 'petag')
    if meta[4] and meta[4] ~= '' and redis.call('HEXISTS', keys.listing(k), id) == 1 then
      redis.call('HSET', keys.listing(k), id, table.concat({meta[2], meta[3], format('%d', lm), meta[4]}, ' '))
    end
    redis.call('HINCRBY', keys.stats(), 'found_newer', 1)
    want_soon(id, now)
  end
end
return 1
