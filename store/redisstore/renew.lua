local id, holder, record, orphaned = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
local now = clock()
local live = leases(redis.call('HGET', JOB, 'live'))
for _, l in ipairs(live) do
	if l.id == id and l.granted + l.ttl > now then
		if flagged(l, 'r') then return {'revoked', redis.call('HGET', JOB, 'revoke:' .. id)} end
		l.granted = now
		if orphaned then flag(l, 'o') end
		keep(live)
		if not string.find(redis.call('HGET', RUNS, id), holder, 1, true) then redis.call('HSET', RUNS, id, record) end
		return {'renewed', int(now), int(l.ttl), flagged(l, 's') and redis.call('HGET', JOB, 'stop:' .. id) or ''}
	end
end
return {'lost'}
