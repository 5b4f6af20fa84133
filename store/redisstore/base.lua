-- What every script begins with, in as few steps as can be: Lua's are most of a
-- claim's time, and it reads each new text byte by byte. A job has one hash: its
-- state, each of its runs (r:ID, a JSON object), how they ended (e:ID, what the
-- object has then at its end) and what decided each tick (t:TICK/ATTEMPT, ids).
local JOB, ORDER, BUCKET, JOBS, REQUESTS, OUTPUT = unpack(KEYS)

-- The time in microseconds, and the same as text. ARGV[1] is added to it: other
-- than 0 in tests only.
local time = redis.call('TIME')
local now, stamp = time[1] * 1000000 + time[2], time[1] .. string.sub('00000' .. time[2], -6)
if ARGV[1] ~= '0' then
	now = now + ARGV[1]
	stamp = string.format('%.0f', now)
end
