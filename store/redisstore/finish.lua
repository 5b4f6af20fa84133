local id, tail, success, output, outputs = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local now = clock()
local live = leases(redis.call('HGET', JOB, 'live'))
local record = redis.call('HGET', RUNS, id)
for i, l in ipairs(live) do
	if l.id == id and l.granted + l.ttl > now then
		table.remove(live, i)
		redis.call('HSET', RUNS, id, close(record, tail, now))
		if success ~= '' then
			redis.call('HSET', JOB, 'success', success)
		end
		keep(live)
		drop(l)
		if output ~= '' then
			redis.call('HSET', OUTPUT, id, output)
			if redis.call('RPUSH', OUTPUTS, id) > outputs then
				redis.call('HDEL', OUTPUT, redis.call('LPOP', OUTPUTS))
			end
		end
		return {'finished'}
	end
end
if record and string.find(record, '"outcome":"', 1, true) and not string.find(record, '"outcome":"lost"', 1, true) then
	return {'finished'}
end
return {'lost'}
