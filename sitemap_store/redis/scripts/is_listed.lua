-- Whether a shard is published and named by an index file that is at the output.
-- ARGV: 1 now, 2 shard id
return is_listed(ARGV[2], 1) and 1 or 0
