-- What every script begins with. ARGV[1] is added to the clock, in microseconds:
-- other than 0 in tests only.
local BUCKET, JOBS, JOB, RUNS, ORDER, REQUESTS, OUTPUT, OUTPUTS = unpack(KEYS)
local FORMAT = '1'

local function clock()
	local t = redis.call('TIME')
	return t[1] * 1000000 + t[2] + ARGV[1]
end

-- int writes a whole number; tostring would write 1.8e+15.
local function int(n) return string.format('%.0f', n) end

-- unknown is the answer where a later program has written the store.
local function unknown(format)
	if format and format ~= FORMAT then return redis.error_reply('CRONCEFORMAT ' .. format) end
end

-- sight compares the server's identity with the one on record. It returns since
-- when the server may lack decisions (0: it has all), or in second place why it
-- must not decide.
local function sight(now)
	local b = redis.call('HMGET', BUCKET, 'format', 'replid', 'seen', 'run')
	if unknown(b[1]) then return 0, unknown(b[1]) end
	local info = redis.call('INFO', 'replication')
	if b[2] and string.find(info, 'master_replid:' .. b[2], 1, true) then return tonumber(b[3]) end
	-- Another process, or one that was a replica since, or a mere change of
	-- name: a master takes another one with its first replica, and an hour
	-- after its last. Only who was a replica has a second one as well.
	local replid = string.match(info, 'master_replid:(%x+)')
	local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
	if b[4] == run and string.find(info, 'master_replid2:0000000000000000000000000000000000000000', 1, true) then
		redis.call('HSET', BUCKET, 'replid', replid)
		return tonumber(b[3])
	end
	local policy = string.match(redis.call('INFO', 'memory'), 'maxmemory_policy:([%w-]+)')
	if policy and string.find(policy, 'allkeys', 1, true) then return 0, redis.error_reply('CRONCEEVICTS ' .. policy) end
	redis.call('HSET', BUCKET, 'format', FORMAT, 'replid', replid, 'run', run, 'seen', int(now))
	return now
end

-- leases reads the live runs of a job, one a line, oldest first. Flags: o, only
-- what the run left behind goes on; s, asked to stop; r, revoked; - for none.
local function leases(text)
	local all = {}
	for id, granted, ttl, flags in string.gmatch(text or '', '(%S+) (%d+) (%d+) (%S+)\n') do
		all[#all + 1] = {id = id, granted = tonumber(granted), ttl = tonumber(ttl), flags = flags}
	end
	return all
end

local function keep(live)
	local lines = {}
	for i, l in ipairs(live) do
		lines[i] = l.id .. ' ' .. int(l.granted) .. ' ' .. int(l.ttl) .. ' ' .. l.flags .. '\n'
	end
	redis.call('HSET', JOB, 'live', table.concat(lines))
end

local function flagged(l, flag) return string.find(l.flags, flag, 1, true) end

local function flag(l, f)
	if not flagged(l, f) then l.flags = (l.flags == '-' and '' or l.flags) .. f end
end

-- close completes the record of a run, which is a JSON object.
local function close(record, tail, now)
	return string.sub(record, 1, -2) .. ',' .. tail .. ',"end":' .. int(now) .. '}'
end

-- drop forgets what was asked of a run that has ended.
local function drop(l)
	if flagged(l, 's') or flagged(l, 'r') then redis.call('HDEL', JOB, 'stop:' .. l.id, 'revoke:' .. l.id) end
end

-- forget drops those of the runs that do not live and were decided before that
-- time, and raises the watermark to the highest of their ticks. It returns how
-- many it dropped.
local function forget(ids, live, before)
	local lives = {}
	for _, l in ipairs(live) do lives[l.id] = true end
	local pruned = tonumber(redis.call('HGET', JOB, 'pruned') or '0')
	local records = redis.call('HMGET', RUNS, unpack(ids))
	local n = 0
	for i, id in ipairs(ids) do
		local r = records[i]
		if not lives[id] and (not r or tonumber(string.match(r, '"start":(%d+)')) < before) then
			local tick = r and string.match(r, '"tick":(%d+)')
			if tick then
				local field = 't:' .. tick .. '/' .. string.match(r, '"attempt":(%d+)')
				local left = {}
				for other in string.gmatch(redis.call('HGET', RUNS, field) or '', '%S+') do
					if other ~= id then left[#left + 1] = other end
				end
				if #left == 0 then
					redis.call('HDEL', RUNS, field)
				else
					redis.call('HSET', RUNS, field, table.concat(left, ' '))
				end
				pruned = math.max(pruned, tick * 1000000)
			end
			redis.call('HDEL', RUNS, id)
			redis.call('LREM', ORDER, 1, id)
			if redis.call('HDEL', OUTPUT, id) == 1 then redis.call('LREM', OUTPUTS, 1, id) end
			n = n + 1
		end
	end
	if pruned > 0 then redis.call('HSET', JOB, 'pruned', int(pruned)) end
	return n
end
