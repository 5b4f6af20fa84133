-- The run's line among those of the live ones: ID GRANTED TTL FLAGS, each
-- after a newline and all but the id of one width. Flags: o, only what the run
-- left behind goes on; s, it was asked to stop; r, it was revoked.
local id = ARGV[2]
local j = redis.call('HMGET', JOB, 'live', 'e:' .. id)
local live, ended = j[1] or '', j[2]
local from, to = string.find(live, '\n' .. id .. ' ', 1, true)
local flags
if from and string.sub(live, to + 1, to + 16) + string.sub(live, to + 18, to + 25) > now then
	flags = string.sub(live, to + 27, to + 29)
end
