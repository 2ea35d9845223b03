-- Takes an idempotency key for one request, or says what became of the one that had it; or keeps what did.
-- Only so many keys, and so many bytes, are remembered: the oldest go first.
-- ARGV: 1 now, 2 the key's digest, 3 how long it is remembered (ms), 4 the most keys, 5 the most bytes,
--       6 "take", "renew", "release" or "done", 7 the request's own id, 8 its answer ("done"), 9 how long it may
--       hold the key (ms), 10 the least time at which the key may count as first seen
-- The value is "p <first> <until> <id>" while a request is under way or was cut off, and "d<answer>" afterwards.
-- A request that asks twice, since the first answer was lost on the way, holds the key all the same.
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
local held, first = redis.call('HGET', values, digest), nil
local begun, till, holder = string.match(held or '', '^p (%d+) (%d+) (%x+)$')

local function hold(till)
  return put(format('p %d %d ', first, till) .. ARGV[7])
end

if ARGV[6] == 'done' then return {'kept', put('d' .. ARGV[8])} end
if ARGV[6] ~= 'take' then
  if holder ~= ARGV[7] then return {'kept', 0} end -- too late: it has its answer, or another request holds it
  first = tonumber(begun)
  return {'kept', hold(ARGV[6] == 'renew' and now + tonumber(ARGV[9]) or 0)}
end
if begun then
  if tonumber(till) > now and holder ~= ARGV[7] then return {'busy', tonumber(till)} end
  first = tonumber(begun)
elseif held then
  return {'done', string.sub(held, 2)}
end
-- What was appended before it is older, also where the server's clock was set back since.
first = first or math.max(now, tonumber(ARGV[10]), tonumber(redis.call('HGET', keys.state(), 'stamp') or 0))
hold(now + tonumber(ARGV[9]))
return {held and 'again' or 'new', first}
