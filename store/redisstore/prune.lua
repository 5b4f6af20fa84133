local refused = unknown(redis.call('GET', BUCKET))
if refused then return refused end
local lives = {}
for _, l in ipairs(leases(redis.call('HGET', JOB, 'live'))) do lives[l.id] = true end
local dropped, gone = forget(redis.call('LRANGE', ORDER, 0, -1), lives, tonumber(ARGV[2])), {}
for _, id in ipairs(dropped) do gone[id] = true end
for _, o in ipairs(#dropped > 0 and redis.call('LRANGE', OUTPUT, 0, -1) or {}) do
	if gone[string.match(o, '^[^\n]*')] then redis.call('LREM', OUTPUT, 1, o) end
end
return {int(#dropped)}
