local id, tail, success, output, outputs = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local now, stamp = clock()
local j = redis.call('HMGET', JOB, 'live', 'r:' .. id)
local record = j[2]
local granted, ttl, flags, before, after = leased(j[1] or '', id)
if granted and granted + ttl > now then
	if success == '' then
		redis.call('HSET', JOB, 'live', before .. after, 'r:' .. id, close(record, tail, stamp))
	else
		redis.call('HSET', JOB, 'live', before .. after, 'r:' .. id, close(record, tail, stamp), 'success', success)
	end
	drop(id, flags)
	if output ~= '' then
		redis.call('RPUSH', OUTPUT, id .. '\n' .. output)
		redis.call('LTRIM', OUTPUT, -outputs, -1)
	end
	return {'finished'}
end
if record and string.find(record, '"outcome":"', 1, true) and not string.find(record, '"outcome":"lost"', 1, true) then
	return {'finished'}
end
return {'lost'}
