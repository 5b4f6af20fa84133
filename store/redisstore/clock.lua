-- The time in microseconds, and the same as text. ARGV[1] is added to it: other
-- than 0 in tests only.
local time = redis.call('TIME')
local now, stamp = time[1] * 1000000 + time[2], time[1] .. string.sub('00000' .. time[2], -6)
if ARGV[1] ~= '0' then
	now = now + ARGV[1]
	stamp = string.format('%.0f', now)
end
