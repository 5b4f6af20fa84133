-- What every script begins with. A job has one hash: its state, each of its runs
-- (r:ID) and what decided each tick (t:TICK/ATTEMPT, the ids of its runs).
-- ARGV[1] is added to the clock, in microseconds: other than 0 in tests only.
local JOB, ORDER, BUCKET, JOBS, REQUESTS, OUTPUT = unpack(KEYS)

-- int writes a whole number; tostring would write 1.8e+15.
local function int(n) return string.format('%.0f', n) end

-- clock returns the time in microseconds, and the same as text.
local function clock()
	local t = redis.call('TIME')
	local now, text = t[1] * 1000000 + t[2], t[1] .. string.sub('00000' .. t[2], -6)
	if ARGV[1] == '0' then return now, text end
	now = now + ARGV[1]
	return now, int(now)
end

-- leased finds a run's line among those of the live ones. It returns its parts
-- and the lines before and after it. Flags: o, only what the run left behind
-- goes on; s, it was asked to stop; r, it was revoked; - for none.
local function leased(live, id)
	local from, to = string.find(live, '\n' .. id .. ' ', 1, true)
	if not from then return end
	local granted, ttl, flags, rest = string.match(live, '^(%d+) (%d+) (%S+)()', to + 1)
	return tonumber(granted), tonumber(ttl), flags, string.sub(live, 1, from - 1), string.sub(live, rest)
end

local function line(id, granted, ttl, flags) return '\n' .. id .. ' ' .. granted .. ' ' .. ttl .. ' ' .. flags end

local function flagged(flags, flag) return string.find(flags, flag, 1, true) end

-- close completes the record of a run, which is a JSON object.
local function close(record, tail, stamp) return string.sub(record, 1, -2) .. ',' .. tail .. ',"end":' .. stamp .. '}' end

-- drop forgets what was asked of a run that has ended.
local function drop(id, flags)
	if flagged(flags, 's') or flagged(flags, 'r') then redis.call('HDEL', JOB, 'stop:' .. id, 'revoke:' .. id) end
end
