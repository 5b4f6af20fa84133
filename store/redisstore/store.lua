local FORMAT = '1'

-- int writes a whole number; tostring would write 1.8e+15.
local function int(n) return string.format('%.0f', n) end

-- unknown is the answer where a later program has written the store.
local function unknown(bucket)
	local format = bucket and string.match(bucket, '^%S+')
	if format and format ~= FORMAT then return redis.error_reply('CRONCEFORMAT ' .. format) end
end

-- sight compares the server's identity with the one on record, which is
-- FORMAT REPLID RUN SEEN. It returns since when the server may lack decisions
-- (0: it has all), or in second place why it must not decide.
local function sight(bucket, info)
	local before, run, seen
	if bucket then
		before, run, seen = string.match(bucket, '^1 (%x+) (%x+) (%d+)$')
		if not seen then return 0, unknown(bucket) or redis.error_reply('CRONCEFORMAT ' .. bucket) end
	end
	local replid = string.match(info, 'master_replid:(%x+)')
	if before == replid then return tonumber(seen) end
	-- Another process, or one that was a replica since, or a mere change of
	-- name: a master takes another one with its first replica, and an hour
	-- after its last. Only who was a replica has a second one as well.
	local process = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
	if run ~= process or not string.find(info, 'master_replid2:0000000000000000000000000000000000000000', 1, true) then
		local policy = string.match(redis.call('INFO', 'memory'), 'maxmemory_policy:([%w-]+)')
		if policy and string.find(policy, 'allkeys', 1, true) then return 0, redis.error_reply('CRONCEEVICTS ' .. policy) end
		seen = stamp
	end
	redis.call('SET', BUCKET, FORMAT .. ' ' .. replid .. ' ' .. process .. ' ' .. seen)
	return tonumber(seen)
end

-- missed looks for what the job lacks under the same server: its last decision, its
-- hash, if its bucket knows of the job, or a fence as high as the caller has seen it since
-- the server was last in doubt. It returns since when the server may lack decisions.
local function missed(name, had, seen)
	local fence, last = tonumber(redis.call('HGET', JOB, 'fence') or '0'), redis.call('LINDEX', ORDER, -1)
	local lost = had > fence and had > seen
	if last then
		while last and redis.call('HEXISTS', JOB, 'r:' .. last) == 0 do
			lost = redis.call('RPOP', ORDER)
			last = redis.call('LINDEX', ORDER, -1)
		end
	else
		lost = lost or redis.call('EXISTS', JOB) == 0 and redis.call('SISMEMBER', JOBS, name) == 1
	end
	if not lost then return seen end
	redis.call('HSET', JOB, 'fence', int(math.max(had, fence)))
	redis.call('SET', BUCKET, (string.gsub(redis.call('GET', BUCKET), '%d+$', stamp)))
	return tonumber(stamp)
end

-- leases reads all live runs of a job, oldest first; lease.lua says how they
-- stand there.
local function leases(live)
	local all = {}
	for id, granted, ttl, flags in string.gmatch(live or '', '\n(%S+) (%d+) (%d+) (%S+)') do
		all[#all + 1] = {id = id, granted = tonumber(granted), ttl = tonumber(ttl), flags = flags}
	end
	return all
end

local function lines(live)
	local all = {}
	for i, l in ipairs(live) do all[i] = '\n' .. l.id .. ' ' .. int(l.granted) .. ' ' .. string.format('%08.0f', l.ttl) .. ' ' .. l.flags end
	return table.concat(all)
end

local function flagged(l, flag) return string.find(l.flags, flag, 1, true) end

local places = {o = 1, s = 2, r = 3}
local function flag(l, f) l.flags = string.sub(l.flags, 1, places[f] - 1) .. f .. string.sub(l.flags, places[f] + 1) end

-- records reads runs with their ends; false where there is none.
local function records(ids, from, to)
	local fields, all = {}, {}
	for i = from, to do
		fields[#fields + 1] = 'r:' .. ids[i]
		fields[#fields + 1] = 'e:' .. ids[i]
	end
	if #fields == 0 then return all end
	local parts = redis.call('HMGET', JOB, unpack(fields))
	for i = 1, #fields, 2 do
		local r, e = parts[i], parts[i + 1]
		all[#all + 1] = r and e and string.sub(r, 1, -2) .. ',' .. e .. '}' or r
	end
	return all
end

-- number reads one out of a record. A pattern alone would be tried at each byte.
local function number(r, name)
	local _, to = string.find(r, name, 1, true)
	return to and string.match(r, '^%d+', to + 1)
end

-- forget drops those of the runs, the oldest of the job, that do not live and were
-- decided before that time, and raises the watermark to the highest of their ticks.
-- It returns the ids of those it dropped.
local function forget(ids, lives, before)
	local pruned, dropped = tonumber(redis.call('HGET', JOB, 'pruned') or '0'), {}
	for from = 1, #ids, 500 do
		local part, named = {}, {}
		for i = from, math.min(from + 499, #ids) do part[#part + 1], named[#named + 1] = ids[i], 'r:' .. ids[i] end
		local gone, ticks, of = {}, {}, {}
		for i, r in ipairs(redis.call('HMGET', JOB, unpack(named))) do
			local id = part[i]
			if not lives[id] and (not r or before == math.huge or tonumber(number(r, '"start":')) < before) then
				local tick = r and number(r, '"tick":')
				if tick then
					ticks[#ticks + 1] = 't:' .. tick .. '/' .. number(r, '"attempt":')
					of[#of + 1] = id
					pruned = math.max(pruned, tick * 1000000)
				end
				gone[#gone + 1], gone[#gone + 2] = 'r:' .. id, 'e:' .. id
				dropped[#dropped + 1] = id
			end
		end
		local left = {} -- of a tick that several runs have
		for i, decided in ipairs(#ticks > 0 and redis.call('HMGET', JOB, unpack(ticks)) or {}) do
			local others = {}
			for other in string.gmatch(left[ticks[i]] or decided or '', '%S+') do
				if other ~= of[i] then others[#others + 1] = other end
			end
			left[ticks[i]] = table.concat(others, ' ')
		end
		for field, others in pairs(left) do
			if others == '' then
				gone[#gone + 1] = field
			else
				redis.call('HSET', JOB, field, others)
			end
		end
		if #gone > 0 then redis.call('HDEL', JOB, unpack(gone)) end
	end
	if #dropped == #ids then
		redis.call('LTRIM', ORDER, #ids, -1)
	else
		for _, id in ipairs(dropped) do redis.call('LREM', ORDER, 1, id) end
	end
	if pruned > 0 then redis.call('HSET', JOB, 'pruned', int(pruned)) end
	return dropped
end

-- bound keeps a job's history, of that length, near what it is to be.
local function bound(length, live, history)
	if length < history + 64 then return end
	local lives = {}
	for _, l in ipairs(live) do lives[l.id] = true end
	forget(redis.call('LRANGE', ORDER, 0, length - history - 1), lives, math.huge)
end
