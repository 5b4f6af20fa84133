-- Looks at one bucket: '' only sees whether the server is who it was, 'init'
-- makes it known, 'now' reads the clock, 'jobs' the names of the jobs.
local now = clock()
if ARGV[2] == 'now' then return {int(now)} end
if ARGV[2] == 'jobs' then return redis.call('SMEMBERS', JOBS) end
local seen, refused = sight(now)
if refused then return refused end
if ARGV[2] == 'init' and seen > 0 then redis.call('HSET', BUCKET, 'seen', '0') end
return {'seen'}
