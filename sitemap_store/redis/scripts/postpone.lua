-- Gives a lease back without having published, to try again later.
-- ARGV: 1 now, 2 worker, 3 lease number, 4 member, 5 pause ms, 6 why it can't be rendered, or "" when the output
--       or Redis is the reason, 7 after how many failures of rendering the member is put aside
-- A member that is put aside is tried again when its next event comes, or by `rebuild`.
-- Returns "later", "aside", or "lost" when the lease was another's.
local now, member = clock(ARGV[1]), ARGV[4]
if not holds(member, ARGV[2], ARGV[3]) then
  -- What this worker wrote before it failed may be older than what is wanted by now.
  if redis.call('EXISTS', hash_of(member)) == 1 then want_soon(member, now) end
  return 'lost'
end
redis.call('HDEL', keys.leases(), member)
redis.call('ZADD', keys.due(), now + tonumber(ARGV[5]), member)
if ARGV[6] == '' then return 'later' end
if redis.call('HINCRBY', hash_of(member), 'fails', 1) < tonumber(ARGV[7]) then return 'later' end
redis.call('HSET', keys.aside(), member, ARGV[6])
redis.call('ZREM', keys.due(), member)
local k = redis.call('HGET', hash_of(member), 'index')
if k and redis.call('SREM', keys.missing(k), member) == 1 then
  redis.call('HDEL', keys.listing(k), member)
  want_soon('i' .. k, now)
end
return 'aside'
