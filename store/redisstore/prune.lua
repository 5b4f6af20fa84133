local before = tonumber(ARGV[2])
local refused = unknown(redis.call('HGET', BUCKET, 'format'))
if refused then return refused end
local live = leases(redis.call('HGET', JOB, 'live'))
local ids, n = redis.call('LRANGE', ORDER, 0, -1), 0
for i = 1, #ids, 500 do
	n = n + forget({unpack(ids, i, math.min(i + 499, #ids))}, live, before)
end
return {int(n)}
