-- Leases shards of one section that are to become one, all of them or none, and hands out their snapshots.
-- Only shards to which nothing is to be done: published as they are wanted, so that nothing is in their logs,
-- not the open one, and none that itself waits for an index to name what it gave away.
-- ARGV: 1 now, 2 worker, 3 lease ms, 4 number of the worker's settings, 5… shard ids
-- Returns {"work", section, then for each shard: id, version, lease number, snapshot}, or {"busy"}, {"outdated"}
--          with nothing taken.
local now, worker = clock(ARGV[1]), ARGV[2]
if outdated(ARGV[4]) then return {'outdated'} end
if redis.call('HEXISTS', keys.state(), 'restoring') == 1 then return {'busy'} end
local section
local versions = {}
for i = 5, #ARGV do
  local id = ARGV[i]
  local meta = redis.call('HMGET', keys.shard(id), 'section', 'wanted', 'published', 'after', 'v')
  section = section or meta[1]
  if not meta[1] or meta[1] ~= section or meta[2] ~= meta[3] or meta[4] or versions[id]
    or redis.call('HEXISTS', keys.leases(), id) == 1 or redis.call('HGET', keys.open_shards(), section) == id then
    return {'busy'}
  end
  versions[id] = meta[5]
end
local answer = {'work', section}
for i = 5, #ARGV do
  local id = ARGV[i]
  local number = lease(id, worker, now, tonumber(ARGV[3]))
  for _, part in ipairs({id, versions[id], number, redis.call('GET', keys.snapshot(id)) or ''}) do
    answer[#answer + 1] = part
  end
end
return answer
