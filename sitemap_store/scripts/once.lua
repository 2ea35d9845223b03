-- Takes an idempotency key for one request, or says what became of the one that had it.
-- ARGV: 1 now, 2 the key's digest, 3 how long a request may hold it (ms), 4 how long it is remembered (ms)
-- The value is "p <first> <until>" while a request is under way or was cut off, and "d<answer>" afterwards.
-- Returns {"new" or "again", first}, {"busy", until} or {"done", answer}.
local now = clock(ARGV[1])
local name = key('once:' .. ARGV[2])
local held = redis.call('GET', name)
local first = now
if held then
  local begun, till = string.match(held, '^p (%d+) (%d+)$')
  if not begun then return {'done', string.sub(held, 2)} end
  if tonumber(till) > now then return {'busy', tonumber(till)} end
  first = tonumber(begun)
end
redis.call('SET', name, string.format('p %d %d', first, now + tonumber(ARGV[3])), 'PX', ARGV[4])
return {held and 'again' or 'new', first}
