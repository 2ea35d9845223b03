-- Takes an idempotency key for one request, or says what became of the one that had it; or keeps what did.
-- Only so many keys, and so many bytes, are remembered: the oldest go first.
-- ARGV: 1 now, 2 the key's digest, 3 how long it is remembered (ms), 4 the most keys, 5 the most bytes,
--       6 the value to keep, "" to take the key, or "+<first>" to hold it for longer, 7 how long a request may
--       hold it (ms), 8 the least time at which it may count as first seen
-- The value is "p <first> <until>" while a request is under way or was cut off, and "d<answer>" afterwards.
-- Returns {"new" or "again", first}, {"busy", until}, {"done", answer}; or {"kept", bytes of all}.
local COST = 225 -- bytes that Redis needs for a key beside its value
local now, digest, life = clock(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local values, ages, size = keys.once(), keys.once_age(), keys.once_bytes()

local function forget(some)
  for _, old in ipairs(some) do
    redis.call('DECRBY', size, redis.call('HSTRLEN', values, old) + COST)
    redis.call('HDEL', values, old)
    redis.call('ZREM', ages, old)
  end
end

local function put(value)
  local before = redis.call('HEXISTS', values, digest) == 1 and redis.call('HSTRLEN', values, digest) + COST or 0
  redis.call('HSET', values, digest, value)
  redis.call('ZADD', ages, 'NX', now, digest)
  local bytes = redis.call('INCRBY', size, #value + COST - before)
  for _ = 1, 1000 do -- more than one go when a bound was lowered, and the rest with later keys
    local n = redis.call('ZCARD', ages)
    if n <= 1 or (n <= tonumber(ARGV[4]) and bytes <= tonumber(ARGV[5])) then break end
    forget(redis.call('ZRANGE', ages, 0, 0))
    bytes = tonumber(redis.call('GET', size))
  end
  for _, name in ipairs({values, ages, size}) do redis.call('PEXPIRE', name, life) end
  return bytes
end

forget(redis.call('ZRANGEBYSCORE', ages, '-inf', now - life, 'LIMIT', 0, 100))
local held, first = redis.call('HGET', values, digest)
local renewed = string.match(ARGV[6], '^%+(%d+)$')
if renewed then
  if not held or sub(held, 1, 1) ~= 'p' then return {'kept', 0} end
  return {'kept', put(format('p %d %d', tonumber(renewed), now + tonumber(ARGV[7])))}
end
if ARGV[6] ~= '' then return {'kept', put(ARGV[6])} end
if held then
  local begun, till = string.match(held, '^p (%d+) (%d+)$')
  if not begun then return {'done', string.sub(held, 2)} end
  if tonumber(till) > now then return {'busy', tonumber(till)} end
  first = tonumber(begun)
end
-- What was appended before it is older, also where the server's clock was set back since.
first = first or math.max(now, tonumber(ARGV[8]), tonumber(redis.call('HGET', keys.state(), 'stamp') or 0))
put(format('p %d %d', first, now + tonumber(ARGV[7])))
return {held and 'again' or 'new', first}
