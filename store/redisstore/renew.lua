local JOB, id, holder, full, orphaned = KEYS[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
local live = redis.call('HGET', JOB, 'live') or ''
local _, to, flags = line(live, id)
if not flags then return {'lost'} end
if string.find(flags, 'r', 1, true) then return {'revoked', redis.call('HGET', JOB, 'revoke:' .. id)} end
if orphaned then flags = 'o' .. string.sub(flags, 2) end
redis.call('HSET', JOB, 'live', string.sub(live, 1, to) .. stamp .. string.sub(live, to + 17, to + 26) .. flags .. string.sub(live, to + 30))
if not string.find(redis.call('HGET', JOB, 'r:' .. id), holder, 1, true) then redis.call('HSET', JOB, 'r:' .. id, full) end
return {'renewed', stamp, string.sub(live, to + 18, to + 25),
	string.find(flags, 's', 1, true) and redis.call('HGET', JOB, 'stop:' .. id) or ''}
