-- Finds what is due and has no job: members whose time has come, wake-ups that were lost, leases that ran
-- out, tombstones whose time is over. Marks what it returns as scheduled.
-- Times that lie further ahead than anything may be put off were set before the server's clock was set back:
-- they count as come.
-- ARGV: 1 now, 2 age ms after which a scheduled member counts as lost, 3 the most members to return,
--       4 the most ms that a member may be put off, 5 lease ms
-- Returns {ms until the next member comes due or -1, members…}.
local now, lost, limit = clock(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
for _, member in ipairs(redis.call('HKEYS', keys.leases())) do
  local deadline, number, owner = holder(member)
  if deadline <= now then
    redis.call('ZADD', keys.due(), 'LT', now, member)
  elseif deadline > now + tonumber(ARGV[5]) then
    redis.call('HSET', keys.leases(), member, format('%d %s %s', now + tonumber(ARGV[5]), number, owner))
  end
end
local horizon = string.format('(%d', now + tonumber(ARGV[4]))
for _, member in ipairs(redis.call('ZRANGEBYSCORE', keys.due(), horizon, '+inf', 'LIMIT', 0, limit)) do
  redis.call('ZADD', keys.due(), now, member)
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', keys.purge(), '-inf', now, 'LIMIT', 0, limit)) do
  redis.call('ZREM', keys.purge(), id)
  if redis.call('EXISTS', keys.shard(id)) == 1 then
    want_soon(id, now)
  end
end
local found = {-1}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', keys.due(), '-inf', now, 'LIMIT', 0, limit)) do
  local deadline = holder(member)
  if not deadline or deadline <= now then
    local since = redis.call('HGET', keys.scheduled(), member)
    if not since or tonumber(since) + lost <= now or tonumber(since) > now then
      redis.call('HSET', keys.scheduled(), member, now)
      found[#found + 1] = member
    end
  end
end
local next = redis.call('ZRANGEBYSCORE', keys.due(), '(' .. string.format('%d', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if next[2] then found[1] = math.max(0, tonumber(next[2]) - now) end
return found
