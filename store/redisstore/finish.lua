local tail, success, output, outputs = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if flags then
	live = string.sub(live, 1, from - 1) .. string.sub(live, to + 30)
	ended = tail .. ',"end":' .. stamp
	if success == '' then
		redis.call('HSET', JOB, 'live', live, 'e:' .. id, ended)
	else
		redis.call('HSET', JOB, 'live', live, 'e:' .. id, ended, 'success', success)
	end
	if flags ~= '---' then redis.call('HDEL', JOB, 'stop:' .. id, 'revoke:' .. id) end
	if output ~= '' then
		redis.call('RPUSH', OUTPUT, id .. '\n' .. output)
		redis.call('LTRIM', OUTPUT, -outputs, -1)
	end
	return {'finished'}
end
if ended and not string.find(ended, '"outcome":"lost"', 1, true) then return {'finished'} end
return {'lost'}
