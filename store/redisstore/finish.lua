local tail, success, output, outputs = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if flags then
	live = string.sub(live, 1, from - 1) .. string.sub(live, to + 30)
	record = string.sub(record, 1, -2) .. ',' .. tail .. ',"end":' .. stamp .. '}'
	if success == '' then
		redis.call('HSET', JOB, 'live', live, 'r:' .. id, record)
	else
		redis.call('HSET', JOB, 'live', live, 'r:' .. id, record, 'success', success)
	end
	if flags ~= '---' then redis.call('HDEL', JOB, 'stop:' .. id, 'revoke:' .. id) end
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
