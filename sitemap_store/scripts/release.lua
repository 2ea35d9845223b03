-- Takes back what dead workers left: their leases are free at once, and what they may have written over
-- newer bytes after losing a lease is rendered again.
-- ARGV: 1 now, 2… names of workers that are certainly dead
-- Which jobs the dead had in hand is not known: all marks of scheduled jobs are dropped, and the keeper
-- enqueues again what is due. A job that is there twice is harmless.
-- Returns the members that are due now.
local now, dead, freed = clock(ARGV[1]), {}, {}
for i = 2, #ARGV do dead[ARGV[i]] = true end
local function again(member)
  redis.call('ZADD', key('due'), now, member)
  redis.call('ZADD', key('pending'), 'NX', now, member)
  freed[#freed + 1] = member
end
redis.call('DEL', key('scheduled'))
local leases = redis.call('HGETALL', key('leases'))
for i = 1, #leases, 2 do
  if dead[string.match(leases[i + 1], '^%d+ (.*)$')] then
    redis.call('HDEL', key('leases'), leases[i])
    redis.call('HINCRBY', key('stats'), 'released', 1)
    again(leases[i])
  end
end
local stale = redis.call('HGETALL', key('stale'))
for i = 1, #stale, 2 do
  local member, worker = string.match(stale[i], '^(%S+) (.*)$')
  if dead[worker] then
    redis.call('HDEL', key('stale'), stale[i])
    if late(member, now) then freed[#freed + 1] = member end
  end
end
return freed
