-- What the status page and the metrics want to know. Put before every script, after common.lua. A call counts
-- once for all its events, so that an event costs nothing more.
local SOURCES = 1000
local MINUTE, MINUTES_KEPT = 60000, 3900000
local QUARTER, QUARTERS_KEPT = 900000, 90000000
local PART, PARTS_KEPT = 21600000, 2764800000

-- Counts events of a source. Names beyond the first thousand are counted together, as "*".
local function count_event(op, source, n)
  local name = op .. ' ' .. source
  if redis.call('HINCRBY', keys.events(), name, n) == tonumber(n) and redis.call('HLEN', keys.events()) > SOURCES then
    redis.call('HDEL', keys.events(), name)
    redis.call('HINCRBY', keys.events(), op .. ' *', n)
  end
end

local function count_in(key, kept, name, n)
  redis.call('HINCRBY', key, name, n)
  if redis.call('HLEN', key) == 1 then redis.call('PEXPIRE', key, kept) end
end

-- Counts something of the minute, the quarter of an hour and the quarter of a day that it is. They are kept for
-- a little more than an hour, a day and a month.
local function count_minute(now, name, n)
  local function number(step) return string.format('%d', math.floor(now / step)) end
  count_in(keys.minute(number(MINUTE)), MINUTES_KEPT, name, n)
  count_in(keys.quarter(number(QUARTER)), QUARTERS_KEPT, name, n)
  count_in(keys.part(number(PART)), PARTS_KEPT, name, n)
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
  redis.call('HINCRBY', keys.lag(), kind .. ' ' .. le, 1)
  redis.call('HINCRBY', keys.lag(), kind .. ' sum', ms)
  if kind == 'shard' then count_minute(now, 'lag ' .. le, 1) end
  return ms
end

-- Records that a shard's file was rewritten, or goes since the shard is empty (`file` is "").
local function record_published(now, section, file, before, urls, events, bytes, since)
  redis.call('HSET', keys.stats(), 'published', now)
  redis.call('HINCRBY', keys.stats(), 'rewrites', 1)
  redis.call('HINCRBY', keys.stats(), 'bytes', bytes)
  redis.call('HSET', keys.section(section), 'published', now)
  count_minute(now, 'rewrites', 1)
  redis.call('XADD', keys.feed(), 'MAXLEN', '~', 200, '*', 'file', file ~= '' and file or before, 'section', section,
    'urls', urls, 'events', events, 'bytes', bytes, 'lag', count_lag(now, 'shard', since),
    'at', format('%d', now), 'gone', file == '' and '1' or '')
end

-- Records that an index file was rewritten.
local function record_index(now, since, bytes)
  count_lag(now, 'index', since)
  redis.call('HINCRBY', keys.stats(), 'index_rewrites', 1)
  redis.call('HINCRBY', keys.stats(), 'bytes', bytes)
end

