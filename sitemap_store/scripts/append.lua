-- Appends events: each URL keeps its seat or gets one in its section's open shard, its record goes to
-- that shard's log, and the shard turns due. All of it or nothing.
-- ARGV: 1 now, 2 min_interval ms, 3 shard_size, 4 index_size, 5 partitions, 6 p, 7 delay ms,
--       8 section names joined by LF, 9… events: digest (10 bytes), section (1 byte, its place in the
--       list from 1), record
-- Returns the shards for which a job must be enqueued now.
local now = clock(ARGV[1])
local min_interval, shard_size, index_size = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local partitions, p, delay = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local sections = {}
for name in string.gmatch(ARGV[8], '[^\n]+') do sections[#sections + 1] = name end

local state = redis.call('HMGET', key('state'), 'buckets', 'seats')
local n, seats = tonumber(state[1] or 1), tonumber(state[2] or 0)
local size = power(n)
local open, touched, order = {}, {}, {}
local ops = {a = 0, u = 0, d = 0}
local stamp = string.format('%d', now)

-- The section's open shard; a full one freezes and the next is opened.
local function seat(section)
  local shard = open[section]
  if not shard then
    local id = redis.call('HGET', key('open'), section)
    shard = {id = id, seats = id and tonumber(redis.call('HGET', key('s:' .. id), 'seats') or shard_size) or shard_size}
    shard.before = shard.seats
    open[section] = shard
  end
  if shard.seats >= shard_size then
    if shard.id and shard.seats > shard.before then
      redis.call('HINCRBY', key('s:' .. shard.id), 'seats', shard.seats - shard.before)
    end
    shard.id = tostring(new_shard(section, now, index_size, partitions, p))
    shard.seats, shard.before = 0, 0
    redis.call('HSET', key('open'), section, shard.id)
  end
  shard.seats = shard.seats + 1
  seats = seats + 1
  return shard.id
end

for i = 9, #ARGV do
  local event = ARGV[i]
  local digest = string.sub(event, 1, 10)
  local where = bucket(digest, n, size)
  local id = redis.call('HGET', where, digest)
  if not id then
    id = seat(sections[string.byte(event, 11)])
    redis.call('HSET', where, digest, id)
  end
  local shard = touched[id]
  if not shard then
    shard = {stamp}
    touched[id] = shard
    order[#order + 1] = id
  end
  shard[#shard + 1] = string.sub(event, 12)
  local op = string.sub(event, 12, 12)
  if op == 'x' then
    shard.urgent = true
    op = 'd'
  end
  ops[op] = ops[op] + 1
end

for _, shard in pairs(open) do
  if shard.seats > shard.before then
    redis.call('HINCRBY', key('s:' .. shard.id), 'seats', shard.seats - shard.before)
  end
end

local wake = {}
for _, id in ipairs(order) do
  local shard = touched[id]
  redis.call('RPUSH', key('log:' .. id), table.concat(shard, '\n'))
  local at = now
  if not shard.urgent then
    at = math.max(now + delay, tonumber(redis.call('HGET', key('s:' .. id), 'rw') or 0) + min_interval)
  end
  redis.call('ZADD', key('pending'), 'NX', now, id)
  if make_due(id, at, now) then wake[#wake + 1] = id end
end

redis.call('HSET', key('state'), 'buckets', grow(n, seats), 'seats', seats)
redis.call('HINCRBY', key('state'), 'logged', #ARGV - 8)
redis.call('HINCRBY', key('stats'), 'add', ops.a)
redis.call('HINCRBY', key('stats'), 'update', ops.u)
redis.call('HINCRBY', key('stats'), 'delete', ops.d)
return wake
