-- Notes that workers are alive, forgets those that were not seen for a minute, and finds leases that a
-- worker has held for too long.
-- ARGV: 1 now, 2 ms that a lease must still run, 3… names of the workers
-- Returns {now, names of the workers that hold a lease with less than that to run}.
local now, left, names, stuck = clock(ARGV[1]), tonumber(ARGV[2]), {}, {}
for i = 3, #ARGV do
  redis.call('ZADD', keys.workers(), now, ARGV[i])
  names[ARGV[i]] = true
end
redis.call('ZREMRANGEBYSCORE', keys.workers(), '-inf', now - 60000)
local leases = redis.call('HVALS', keys.leases())
for _, held in ipairs(leases) do
  local deadline, owner = string.match(held, '^(%d+) %d+ (.*)$')
  if names[owner] and tonumber(deadline) - now < left then stuck[#stuck + 1] = owner end
end
return {now, stuck}
