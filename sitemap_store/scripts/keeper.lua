-- Finds what is due and has no job: members whose time has come, wake-ups that were lost, leases that ran
-- out, tombstones whose time is over. Marks what it returns as scheduled.
-- Times that lie further ahead than anything may be put off were set before the server's clock was set back:
-- they count as come.
-- ARGV: 1 now, 2 age ms after which a scheduled member counts as lost, 3 the most members to return,
--       4 the most ms that a member may be put off, 5 lease ms
-- Returns {ms until the next member comes due or -1, members…}.
local now, lost, limit = clock(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local leases = redis.call('HGETALL', key('leases'))
for i = 1, #leases, 2 do
  local deadline, owner = string.match(leases[i + 1], '^(%d+) (.*)$')
  if tonumber(deadline) <= now then
    redis.call('ZADD', key('due'), 'LT', now, leases[i])
  elseif tonumber(deadline) > now + tonumber(ARGV[5]) then
    redis.call('HSET', key('leases'), leases[i], (now + tonumber(ARGV[5])) .. ' ' .. owner)
  end
end
local horizon = string.format('(%d', now + tonumber(ARGV[4]))
for _, member in ipairs(redis.call('ZRANGEBYSCORE', key('due'), horizon, '+inf', 'LIMIT', 0, limit)) do
  redis.call('ZADD', key('due'), now, member)
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', key('purge'), '-inf', now, 'LIMIT', 0, limit)) do
  redis.call('ZADD', key('due'), 'NX', now, id)
end
local found = {-1}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', key('due'), '-inf', now, 'LIMIT', 0, limit)) do
  local held = redis.call('HGET', key('leases'), member)
  if not held or tonumber(string.match(held, '^%d+')) <= now then
    local since = redis.call('HGET', key('scheduled'), member)
    if not since or tonumber(since) + lost <= now or tonumber(since) > now then
      redis.call('HSET', key('scheduled'), member, now)
      found[#found + 1] = member
    end
  end
end
local next = redis.call('ZRANGEBYSCORE', key('due'), '(' .. string.format('%d', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if next[2] then found[1] = math.max(0, tonumber(next[2]) - now) end
return found
