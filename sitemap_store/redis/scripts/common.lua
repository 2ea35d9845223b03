-- Put before every script of the store. KEYS[1] is the partition's prefix, "sm:{site.p}"; the functions of
-- `keys` (from keys.py) make every other key from it, so all of a script's keys lie in one cluster slot.
local byte, sub, format = string.byte, string.sub, string.format

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

local function hash(digest)
  local a, b, c, d = byte(digest, 1, 4)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

local function bucket(digest, size, split)
  local h = hash(digest)
  local b = h % size
  if b < split then b = h % (size * 4) end
  return keys.directory(format('%d', b))
end

-- Splits buckets until they hold 20 digests on average. The undivided ones then hold 80 at the most, give
-- or take 9, and stay compact listpacks (128 entries in Redis' own settings) that are quickly searched. An
-- append of k new URLs splits k / 60 of them, whatever the size of the site. Returns the new number of
-- buckets.
local function grow(n, seats)
  local size, split = level(n)
  while seats > 20 * n do
    local from, moved, gone = keys.directory(split), {}, {}
    local all = redis.call('HGETALL', from)
    for i = 1, #all, 2 do
      local b = hash(all[i]) % (size * 4)
      if b ~= split then
        local into = moved[b]
        if not into then
          into = {keys.directory(b)}
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

-- A member is a shard (its id) or an index file ("i" and its number); its hash holds `wanted` and `published`.
local function hash_of(member)
  if byte(member, 1) == 105 then return keys.index(sub(member, 2)) end
  return keys.shard(member)
end

-- Gives a member a time before which it is not rewritten, and says whether a job should be enqueued now. A
-- leased member needs none: when the lease's holder publishes, it learns that more is wanted.
local function make_due(member, at, now)
  local current = redis.call('ZSCORE', keys.due(), member)
  if not current or tonumber(current) > at then redis.call('ZADD', keys.due(), at, member) end
  return at <= now and redis.call('HEXISTS', keys.leases(), member) == 0
    and redis.call('HSETNX', keys.scheduled(), member, now) == 1
end

-- Raises what is wanted of a member: whoever learns that its file may have to change calls this, and nothing
-- else makes a file be rendered. `since` is when the oldest reason came. Returns as make_due does.
local function want(member, at, now, since)
  redis.call('HINCRBY', hash_of(member), 'wanted', 1)
  redis.call('ZADD', keys.pending(), 'LT', since or now, member)
  return make_due(member, at, now)
end

-- As `want`, for reasons that are no change of the site's: the keeper enqueues the job with its next look.
local function want_soon(member, now)
  redis.call('HINCRBY', hash_of(member), 'wanted', 1)
  redis.call('ZADD', keys.pending(), 'LT', now, member)
  redis.call('ZADD', keys.due(), 'LT', now, member)
end

-- A shard is rewritten once per min_interval in the long run, three times at once in a burst: `rest` is when
-- the rewrites so far would have ended, had each taken an interval (GCRA). An index file has a pause of its own.
local BURST = 3

local function rested(rest, min_interval)
  return (tonumber(rest) or 0) - (BURST - 1) * min_interval
end

-- A lease is "deadline number worker". Its number is given once, so a worker that leases again is not taken
-- for its earlier self.
local function holder(member)
  local held = redis.call('HGET', keys.leases(), member)
  if not held then return nil end
  local deadline, number, worker = string.match(held, '^(%d+) (%d+) (.*)$')
  return tonumber(deadline), number, worker
end

local function holds(member, worker, number)
  local _, theirs, owner = holder(member)
  return owner == worker and theirs == number
end

-- Takes a lease and returns its number; nil while another worker holds it. Who loses a lease that ran out may
-- still write to the output, so more is wanted of the member then.
local function lease(member, worker, now, ms)
  local deadline, _, owner = holder(member)
  if deadline then
    if owner ~= worker then
      if deadline > now then return nil end
      redis.call('HINCRBY', keys.stats(), 'expired', 1)
    end
    redis.call('HINCRBY', hash_of(member), 'wanted', 1)
  end
  local number = format('%d', redis.call('HINCRBY', keys.state(), 'leases', 1))
  redis.call('HSET', keys.leases(), member, format('%d %s %s', now + ms, number, worker))
  return number
end

-- Whether a generation of a shard is published and an index file that is at the output names its file; so is
-- a shard that is gone.
local function is_listed(id, generation)
  local meta = redis.call('HMGET', keys.shard(id), 'published', 'index', 'listed')
  if not meta[1] then return true end
  return tonumber(meta[1]) >= tonumber(generation)
    and tonumber(redis.call('HGET', keys.index(meta[2]), 'published') or 0) >= tonumber(meta[3] or 0)
end

-- A shard that gave entries to another keeps its file, with all its URLs, until an index names the other's file
-- with those entries: as it is wanted by now, or later.
local function keep_file_until(id, other)
  redis.call('HSET', keys.shard(id), 'after', other .. ' ' .. redis.call('HGET', keys.shard(other), 'wanted'))
end

-- Whether a worker's settings are older than those that the site's files follow by now; 0 is no worker's.
local function outdated(config)
  config = tonumber(config)
  return config > 0 and config < tonumber(redis.call('HGET', keys.state(), 'config') or 0)
end

-- Gives a shard a place in the first index file that has room; returns the file's number.
local function place(index_size)
  local k = tonumber(redis.call('HGET', keys.state(), 'index_hint') or 1)
  while tonumber(redis.call('HGET', keys.index_sizes(), k) or 0) >= index_size do k = k + 1 end
  redis.call('HINCRBY', keys.index_sizes(), k, 1)
  redis.call('HSET', keys.state(), 'index_hint', k)
  return k
end

-- Takes a shard's place in an index file away.
local function leave(k)
  redis.call('HINCRBY', keys.index_sizes(), k, -1)
  if tonumber(k) < tonumber(redis.call('HGET', keys.state(), 'index_hint') or 1) then
    redis.call('HSET', keys.state(), 'index_hint', k)
  end
end

-- Makes a new shard of a section with a place in the first index file that has room.
local function new_shard(section, now, index_size, partitions, p)
  local id = redis.call('HINCRBY', keys.state(), 'next', 1)
  local number = (redis.call('HINCRBY', keys.numbers(), section, 1) - 1) * partitions + p + 1
  local k = place(index_size)
  redis.call('HSET', keys.shard(id), 'section', section, 'number', number, 'index', k, 'v', 0,
    'wanted', 0, 'published', 0, 'urls', 0, 'dead', 0, 'bytes', 0, 'seats', 0, 'lm', 0, 'rest', 0)
  redis.call('ZADD', keys.shards(), id, id)
  redis.call('HINCRBY', keys.section(section), 'shards', 1)
  redis.call('SADD', keys.sections(), section)
  return id
end
