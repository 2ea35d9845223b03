-- Appends events: each URL keeps its seat or gets one in its section's open shard, its record goes to
-- that shard's log, and the shard turns due. All of it or nothing. While a restore takes the published tree
-- back, they are held instead: their URLs may not have their old seats yet.
-- ARGV: 1 now, 2 min_interval ms, 3 shard_size, 4 index_size, 5 partitions, 6 p, 7 delay ms,
--       8 how many events of which sections follow: lines of "count section", 9 how many events of which op
--       and source: lines of "count op source",
--       10 "1" when there are urgent deletes among them,
--       11… for each section its digests end to end, and its records as lines in the same order
-- Returns the shards for which a job must be enqueued now.
local now = clock(ARGV[1])
local min_interval, shard_size, index_size = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local partitions, p, delay = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local state = redis.call('HMGET', keys.state(), 'buckets', 'seats', 'restoring', 'stamp')
-- When these events happened, if they don't say. It never goes back, as the server's clock may: otherwise an
-- event would lose against what was appended before it.
local stamp = format('%d', math.max(now, tonumber(state[4] or 0)))

-- Adds records to a list as elements of at most ELEMENT bytes, or of one record: what reads them, reads
-- whole elements. A text of several records is cut only where it is too long.
local ELEMENT = 262144
local function push(list, texts)
  local element, size = {stamp}, 0
  local function add(text)
    if size > 0 and size + #text > ELEMENT then
      redis.call('RPUSH', list, table.concat(element, '\n'))
      element, size = {stamp}, 0
    end
    element[#element + 1] = text
    size = size + #text + 1
  end
  for _, text in ipairs(texts) do
    if #text <= ELEMENT then
      add(text)
    else
      for record in string.gmatch(text, '[^\n]+') do add(record) end
    end
  end
  redis.call('RPUSH', list, table.concat(element, '\n'))
end

if state[3] then
  local held = {}
  for i = 12, #ARGV, 2 do held[#held + 1] = ARGV[i] end
  push(keys.held(), held)
  redis.call('HSET', keys.state(), 'stamp', stamp)
  return {}
end
local n, seats = tonumber(state[1] or 1), tonumber(state[2] or 0)
local size, split = level(n)
local open, touched, order, total = {}, {}, {}, 0
local X, WIDTH = 120, 10 -- an urgent delete's code, a digest's bytes (sitemap_store.model.events, .entries)
local urgent = ARGV[10] == '1'

-- The section's open shard; a full one freezes and the next is opened.
local function opened(section)
  local shard = open[section]
  if not shard then
    local id = redis.call('HGET', keys.open_shards(), section)
    shard = {id = id, seats = id and tonumber(redis.call('HGET', keys.shard(id), 'seats') or shard_size) or shard_size}
    shard.before = shard.seats
    open[section] = shard
  end
  if shard.seats >= shard_size then
    if shard.id and shard.seats > shard.before then
      redis.call('HINCRBY', keys.shard(shard.id), 'seats', shard.seats - shard.before)
    end
    shard.id = tostring(new_shard(section, now, index_size, partitions, p))
    shard.seats, shard.before = 0, 0
    redis.call('HSET', keys.open_shards(), section, shard.id)
  end
  return shard
end

-- New URLs come in runs (a bulk load), and so do known ones: the call that settled the last event is tried
-- first for the next.
local new = false
local function seat_of(digest, section)
  local where = bucket(digest, size, split)
  local id = not new and redis.call('HGET', where, digest)
  if not id then
    local shard = opened(section)
    new = redis.call('HSETNX', where, digest, shard.id) == 1
    if new then
      shard.seats = shard.seats + 1
      seats = seats + 1
      return shard.id
    end
    id = redis.call('HGET', where, digest)
  end
  return id
end

local function log_of(id)
  local log = touched[id]
  if not log then
    log = {n = 0}
    touched[id] = log
    order[#order + 1] = id
  end
  return log
end

local i = 11
for count, section in string.gmatch(ARGV[8], '(%d+) ([^\n]+)') do
  local digests, records, ids, first, same = ARGV[i], ARGV[i + 1], {}, nil, true
  i = i + 2
  total = total + count
  for at = 1, #digests, WIDTH do
    local id = seat_of(sub(digests, at, at + WIDTH - 1), section)
    ids[#ids + 1] = id
    first = first or id
    same = same and id == first
  end
  if same then
    -- What a bulk load gives: one shard's records are not even looked at.
    local log = log_of(first)
    log.n = log.n + 1
    log[log.n] = records
    log.urgent = log.urgent or urgent
  else
    local n = 0
    for record in string.gmatch(records, '[^\n]+') do
      n = n + 1
      local log = log_of(ids[n])
      log.n = log.n + 1
      log[log.n] = record
      if urgent and byte(record, 1) == X then log.urgent = true end
    end
  end
end

for _, shard in pairs(open) do
  if shard.seats > shard.before then
    redis.call('HINCRBY', keys.shard(shard.id), 'seats', shard.seats - shard.before)
  end
end

local wake = {}
for _, id in ipairs(order) do
  local shard = touched[id]
  push(keys.log(id), shard)
  local at = now
  if shard.urgent then
    redis.call('HSET', keys.shard(id), 'urgent', 1)
  else
    at = math.max(now + delay, rested(redis.call('HGET', keys.shard(id), 'rest'), min_interval))
  end
  if want(id, at, now) then wake[#wake + 1] = id end
end

redis.call('HSET', keys.state(), 'buckets', grow(n, seats), 'seats', seats, 'stamp', stamp)
redis.call('HINCRBY', keys.state(), 'logged', total)
for count, op, source in string.gmatch(ARGV[9], '(%d+) (%l+) ([^\n]*)') do
  redis.call('HINCRBY', keys.stats(), op, count)
  count_event(op, source, count)
end
count_minute(now, 'events', total)
return wake
