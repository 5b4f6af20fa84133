-- Reads of a job, as ARGV[2] says, and changes nothing.
local what = ARGV[2]
if what == 'run' then
	local r = redis.call('HGET', RUNS, ARGV[3])
	return r and {r, redis.call('HGET', OUTPUT, ARGV[3]) or ''} or {}
end

local function records(ids)
	local all = {}
	for i = 1, #ids, 500 do
		for _, r in ipairs(redis.call('HMGET', RUNS, unpack(ids, i, math.min(i + 499, #ids)))) do
			if r then all[#all + 1] = r end
		end
	end
	return all
end

if what == 'runs' then return records(redis.call('LRANGE', ORDER, -ARGV[3], -1)) end
if what == 'requests' then return redis.call('LRANGE', REQUESTS, -ARGV[3], -1) end

-- A job: its fields, its last decision, and the runs that have not ended.
local j = redis.call('HMGET', JOB, 'definition', 'since', 'paused', 'resumed', 'fence', 'live')
local state = {}
for i = 1, 5 do state[i] = j[i] or '' end
state[6] = records(redis.call('LRANGE', ORDER, -1, -1))[1] or ''
local ids = {}
for i, l in ipairs(leases(j[6])) do ids[i] = l.id end
for _, r in ipairs(records(ids)) do state[#state + 1] = r end
return state
