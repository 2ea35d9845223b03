-- Frees the leases of workers that are certainly dead.
-- ARGV: 1 now, 2… names of the dead workers
-- Which jobs the dead had in hand is not known: all marks of scheduled jobs are dropped, and the keeper
-- enqueues again what is due. A job that is there twice is harmless.
-- Returns the members that were freed; they are due now.
local now, dead, freed = clock(ARGV[1]), {}, {}
for i = 2, #ARGV do dead[ARGV[i]] = true end
redis.call('DEL', keys.scheduled())
for _, member in ipairs(redis.call('HKEYS', keys.leases())) do
  local _, _, worker = holder(member)
  if dead[worker] then
    redis.call('HDEL', keys.leases(), member)
    redis.call('HINCRBY', keys.stats(), 'released', 1)
    redis.call('ZADD', keys.pending(), 'LT', now, member)
    redis.call('ZADD', keys.due(), 'LT', now, member)
    freed[#freed + 1] = member
  end
end
return freed
