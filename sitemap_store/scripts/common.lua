-- Put before every script of the store. KEYS[1] is the partition's prefix, "sm:{site.p}"; every other
-- key is made from it, so all of a script's keys lie in one cluster slot.
local P = KEYS[1]
local byte, sub, format = string.byte, string.sub, string.format

local function key(name)
  return P .. ':' .. name
end

-- The time in epoch milliseconds: the server's own clock, so that all hosts agree, unless the caller
-- (a test) gives one that is not 0.
local function clock(given)
  local n = tonumber(given)
  if n > 0 then return n end
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- A directory of n buckets grows by splitting one bucket after the other into four (linear hashing): `size`
-- is the largest power of four that is at most n, and the first `split` buckets of that size are divided.
-- Four and not two: a URL is then moved a third as often while a site grows.
local function level(n)
  local size = 1
  while size * 4 <= n do size = size * 4 end
  return size, (n - size) / 3
end

local D = P .. ':d:'

local function hash(digest)
  local a, b, c, d = byte(digest, 1, 4)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

local function bucket(digest, size, split)
  local h = hash(digest)
  local b = h % size
  if b < split then b = h % (size * 4) end
  return D .. format('%d', b)
end

-- Splits buckets until they hold 20 digests on average. The undivided ones then hold 80 at the most, give
-- or take 9, and stay compact listpacks (128 entries in Redis' own settings) that are quickly searched. An
-- append of k new URLs splits k / 60 of them, whatever the size of the site. Returns the new number of
-- buckets.
local function grow(n, seats)
  local size, split = level(n)
  while seats > 20 * n do
    local from, moved, gone = D .. split, {}, {}
    local all = redis.call('HGETALL', from)
    for i = 1, #all, 2 do
      local b = hash(all[i]) % (size * 4)
      if b ~= split then
        local into = moved[b]
        if not into then
          into = {D .. b}
          moved[b] = into
        end
        into[#into + 1], into[#into + 2] = all[i], all[i + 1]
        gone[#gone + 1] = all[i]
      end
    end
    for _, into in pairs(moved) do redis.call('HSET', unpack(into)) end
    if #gone > 0 then redis.call('HDEL', from, unpack(gone)) end
    n, split = n + 3, split + 1
    if split == size then size, split = size * 4, 0 end
  end
  return n
end

-- Gives a member (a shard's id, or "i" and an index file's number) a time before which it is not
-- rewritten, and says whether a job should be enqueued now. A leased member needs none: the lease's
-- holder looks at the log again when it is done.
local function make_due(member, at, now)
  local current = redis.call('ZSCORE', key('due'), member)
  if not current or tonumber(current) > at then redis.call('ZADD', key('due'), at, member) end
  return at <= now and redis.call('HEXISTS', key('leases'), member) == 0
    and redis.call('HSETNX', key('scheduled'), member, now) == 1
end

local function holds(member, worker)
  local lease = redis.call('HGET', key('leases'), member)
  return lease and string.match(lease, '^%d+ (.*)$') == worker
end

-- Takes or renews a lease; false when another worker holds it. One that ran out is taken over, and the
-- one who lost it is noted, so that what it may still do to the output is put right afterwards.
local function lease(member, worker, now, ms)
  local held = redis.call('HGET', key('leases'), member)
  if held then
    local deadline, owner = string.match(held, '^(%d+) (.*)$')
    if owner ~= worker then
      if tonumber(deadline) > now then return false end
      redis.call('HSET', key('stale'), member .. ' ' .. owner, now)
      redis.call('HINCRBY', key('stats'), 'expired', 1)
    end
  end
  redis.call('HSET', key('leases'), member, (now + ms) .. ' ' .. worker)
  return true
end

-- Counts for the status page and the metrics. A call counts once for all its events, so that an event costs
-- nothing more.
local SOURCES, MINUTE, KEPT = 1000, 60000, 3900000

-- Counts events of a source. Names beyond the first thousand are counted together, as "*".
local function count_event(op, source, n)
  local name = op .. ' ' .. source
  if redis.call('HINCRBY', key('events'), name, n) == tonumber(n) and redis.call('HLEN', key('events')) > SOURCES then
    redis.call('HDEL', key('events'), name)
    redis.call('HINCRBY', key('events'), op .. ' *', n)
  end
end

-- Counts something of the minute that it is; an hour and five minutes are kept.
local function count_minute(now, name, n)
  local minute = key('min:' .. string.format('%d', math.floor(now / MINUTE)))
  redis.call('HINCRBY', minute, name, n)
  if redis.call('HLEN', minute) == 1 then redis.call('PEXPIRE', minute, KEPT) end
end

-- Counts how long the oldest event of a rewrite waited until the file ("shard" or "index") was published.
local LAGS = {10, 25, 50, 75, 100, 150, 200, 250, 300, 400, 500, 750, 1000, 1500, 2000, 3000, 5000, 7500,
  10000, 15000, 30000, 60000, 300000}

local function count_lag(now, kind, since)
  local ms, le = math.max(0, now - since), 'inf'
  for _, bound in ipairs(LAGS) do
    if ms <= bound then
      le = bound
      break
    end
  end
  redis.call('HINCRBY', key('lag'), kind .. ' ' .. le, 1)
  redis.call('HINCRBY', key('lag'), kind .. ' sum', ms)
  if kind == 'shard' then count_minute(now, 'lag ' .. le, 1) end
  return ms
end

-- Has a member rendered once more, since a worker that lost its lease may have written over newer bytes.
-- False when there is no such member any more.
local function late(member, now)
  local hash = string.sub(member, 1, 1) == 'i' and key('i:' .. string.sub(member, 2)) or key('s:' .. member)
  if redis.call('EXISTS', hash) == 0 then return false end
  redis.call('HSET', hash, 'check', 'late')
  redis.call('ZADD', key('due'), now, member)
  redis.call('ZADD', key('pending'), 'NX', now, member)
  return true
end

-- Makes a new shard of a section with a place in the first index file that has room.
local function new_shard(section, now, index_size, partitions, p)
  local id = redis.call('HINCRBY', key('state'), 'next', 1)
  local number = (redis.call('HINCRBY', key('numbers'), section, 1) - 1) * partitions + p + 1
  local k = tonumber(redis.call('HGET', key('state'), 'index_hint') or 1)
  while tonumber(redis.call('HGET', key('index_sizes'), k) or 0) >= index_size do k = k + 1 end
  redis.call('HINCRBY', key('index_sizes'), k, 1)
  redis.call('HSET', key('state'), 'index_hint', k)
  redis.call('HSET', key('s:' .. id), 'section', section, 'number', number, 'index', k,
    'v', 0, 'pv', 0, 'urls', 0, 'dead', 0, 'bytes', 0, 'seats', 0, 'lm', 0, 'rw', 0)
  redis.call('ZADD', key('shards'), id, id)
  redis.call('HINCRBY', key('sec:' .. section), 'shards', 1)
  redis.call('SADD', key('sections'), section)
  return id
end
