-- Reads of a job, as ARGV[2] says, and changes nothing.
local what = ARGV[2]

local expires = {}
for _, l in ipairs(leases(redis.call('HGET', JOB, 'live'))) do expires[l.id] = int(l.granted + l.ttl) end

local function all(ids)
	local found = {}
	for from = 1, #ids, 500 do
		for i, r in ipairs(records(ids, from, math.min(from + 499, #ids))) do
			local ends = expires[ids[from + i - 1]]
			if r and ends then r = string.sub(r, 1, -2) .. ',"expires":' .. ends .. '}' end
			if r then found[#found + 1] = r end
		end
	end
	return found
end

if what == 'run' then
	local id = ARGV[3]
	local found = all({id})
	if found[1] then
		for _, o in ipairs(redis.call('LRANGE', OUTPUT, 0, -1)) do
			if string.find(o, id .. '\n', 1, true) == 1 then found[2] = string.sub(o, #id + 2) end
		end
	end
	return found
end
if what == 'runs' then return all(redis.call('LRANGE', ORDER, -ARGV[3], -1)) end
if what == 'requests' then return redis.call('LRANGE', REQUESTS, -ARGV[3], -1) end

-- A job: its fields, its last decision, and the runs that have not ended.
local j = redis.call('HMGET', JOB, 'definition', 'since', 'paused', 'resumed', 'fence', 'live')
local state = {}
for i = 1, 5 do state[i] = j[i] or '' end
state[6] = all(redis.call('LRANGE', ORDER, -1, -1))[1] or ''
local ids = {}
for i, l in ipairs(leases(j[6])) do ids[i] = l.id end
for _, r in ipairs(all(ids)) do state[#state + 1] = r end
return state
