-- Finds the section whose shards are the emptiest, where they are emptier than they may be and it is time for
-- another merge. Its next time is then a pause away.
-- ARGV: 1 now, 2 shard_size, 3 the share of the seats in a section's shards that entries must take, 4 pause ms
-- A time further ahead than a pause was set before the server's clock was set back: it counts as come.
-- Returns {now, section}, or {now} when there is none.
-- Two shards are too few: the open one takes no part.
local now, shard_size, below, pause = clock(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local found
for _, section in ipairs(redis.call('SMEMBERS', keys.sections())) do
  local row = redis.call('HMGET', keys.section(section), 'urls', 'shards', 'merge')
  local urls, shards, next = tonumber(row[1] or 0), tonumber(row[2] or 0), tonumber(row[3] or 0)
  local fill = urls / (shards * shard_size)
  if shards > 2 and fill < below and (next <= now or next > now + pause) then below, found = fill, section end
end
if not found then return {now} end
redis.call('HSET', keys.section(found), 'merge', format('%d', now + pause))
return {now, found}
