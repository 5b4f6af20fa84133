-- Ends of several runs of a bucket. KEYS: the hash of each job, and where there is
-- output, which is then one run's alone, its list. ARGV: clock, how many, of each id, end of the
-- record and what to note as success, then output and how many outputs are kept.
local n, answers = tonumber(ARGV[2]), {}
for i = 1, n do
	local JOB, id, tail, success = KEYS[i], ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
	local live, answer = redis.call('HGET', JOB, 'live') or '', 'finished'
	local from, to, flags = line(live, id)
	if flags then
		live = string.sub(live, 1, from - 1) .. string.sub(live, to + 30)
		if success == '' then
			redis.call('HSET', JOB, 'live', live, 'e:' .. id, tail .. ',"end":' .. stamp)
		else
			redis.call('HSET', JOB, 'live', live, 'e:' .. id, tail .. ',"end":' .. stamp, 'success', success)
		end
		if flags ~= '---' then redis.call('HDEL', JOB, 'stop:' .. id, 'revoke:' .. id) end
		if KEYS[n + 1] then
			redis.call('RPUSH', KEYS[n + 1], id .. '\n' .. ARGV[3 * n + 3])
			redis.call('LTRIM', KEYS[n + 1], -ARGV[3 * n + 4], -1)
		end
	else
		local ended = redis.call('HGET', JOB, 'e:' .. id)
		if not ended or string.find(ended, '"outcome":"lost"', 1, true) then answer = 'lost' end
	end
	answers[i] = answer
end
return answers
