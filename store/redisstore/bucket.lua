-- Looks at one bucket: '' only sees whether the server is who it was, 'init'
-- makes it known, 'now' reads the clock, 'jobs' the names of the jobs.
if ARGV[2] == 'now' then return {stamp} end
if ARGV[2] == 'jobs' then return redis.call('SMEMBERS', JOBS) end
local seen, refused = sight(redis.call('GET', BUCKET), redis.call('INFO', 'replication'))
if refused then return refused end
if ARGV[2] == 'init' and seen > 0 then
	redis.call('SET', BUCKET, (string.gsub(redis.call('GET', BUCKET), '%d+$', '0')))
end
return {'seen'}
