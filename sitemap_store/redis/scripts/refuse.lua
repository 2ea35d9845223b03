-- Counts refusals by their rules and by who sent them.
-- ARGV: 1 now, 2 how many of which rule and source: lines of "count rule source"
-- Returns how many were counted.
local now, total = clock(ARGV[1]), 0
for count, rule, source in string.gmatch(ARGV[2], '(%d+) (%S+) ([^\n]*)') do
  redis.call('HINCRBY', keys.refusals(), rule, count)
  count_event('refused', source, count)
  total = total + tonumber(count)
end
redis.call('HINCRBY', keys.stats(), 'refused', total)
count_minute(now, 'refused', total)
return total
