-- Gives a lease back without having published, to try again later (the output can't be written now).
-- ARGV: 1 now, 2 worker, 3 member, 4 pause ms
-- Returns 1 when the lease was the worker's own.
local now, worker, member = clock(ARGV[1]), ARGV[2], ARGV[3]
if not holds(member, worker) then
  -- Another one has it. What this one wrote before it failed is put right, as in published.lua.
  if redis.call('HDEL', key('stale'), member .. ' ' .. worker) == 1 then late(member, now) end
  return 0
end
redis.call('HDEL', key('leases'), member)
redis.call('ZADD', key('due'), now + tonumber(ARGV[4]), member)
return 1
