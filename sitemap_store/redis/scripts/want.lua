-- Raises what is wanted of members that may not be at the output as they should: found so by the scrubber, or
-- asked for by `rebuild` or by changed settings.
-- ARGV: 1 now, 2 members joined by a space, 3 why: "asked", "gone" (no file at the output) or "altered" (its
--       content is not what was published: readers may have had it, so lastmod will move), 4 ms that an index
--       file waits for the gone files that it lists
local now, why = clock(ARGV[1]), ARGV[3]
for member in string.gmatch(ARGV[2], '%S+') do
  local hash = hash_of(member)
  if redis.call('EXISTS', hash) == 1 then
    local k = redis.call('HGET', hash, 'index')
    if why == 'gone' and k and redis.call('HEXISTS', keys.listing(k), member) == 1 then
      redis.call('SADD', keys.missing(k), member)
      redis.call('HSETNX', keys.index(k), 'hold', format('%d', now + tonumber(ARGV[4])))
    elseif why == 'altered' then
      redis.call('HDEL', hash, 'petag')
    end
    if why ~= 'asked' then redis.call('HINCRBY', keys.stats(), 'found_' .. why, 1) end
    want_soon(member, now)
  end
end
return 1
