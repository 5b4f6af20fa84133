-- Decides a tick, in the order of answers that cronce.Driver gives.
local quarantine, history, name, id = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local field, due, slots = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]) -- field and due are of the tick; without one '' and nil
local definition, policy = ARGV[9], ARGV[10]
local wait, deadline, offered = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local catchup, ttl, head = ARGV[14] == '1', tonumber(ARGV[15]), ARGV[16]

local now = clock()
local seen, refused = sight(now)
if refused then return refused end
offered = offered or now

local j = redis.call('HMGET', JOB, 'live', 'place', 'definition', 'since', 'paused', 'pruned', 'fence', 'success')
local live, place, paused = leases(j[1]), nil, j[5]
local success = j[8] or ''

local lost = false
for i = #live, 1, -1 do
	local l = live[i]
	if l.granted + l.ttl <= now then
		redis.call('HSET', RUNS, l.id, close(redis.call('HGET', RUNS, l.id), '"outcome":"lost"', now))
		drop(l)
		table.remove(live, i)
		lost = true
	end
end
if lost then keep(live) end

if j[2] then
	place = {}
	place.id, place.due, place.granted, place.expires, place.record = string.match(j[2], '^(%S+) (%S+) (%d+) (%d+) (.*)$')
	place.granted, place.expires = tonumber(place.granted), tonumber(place.expires)
	if place.expires <= now then
		redis.call('HDEL', JOB, 'place')
		place = nil
	end
end

local have = redis.call('HMGET', RUNS, id, field)
if have[1] then
	for _, l in ipairs(live) do
		if l.id == id then
			if flagged(l, 'r') then return {'revoked', redis.call('HGET', JOB, 'revoke:' .. id)} end
			l.granted = now
			keep(live)
			return {'again', int(now), int(l.ttl), success, have[1]}
		end
	end
	local r = redis.call('HGET', RUNS, id)
	local held = string.match(r, '"held":"([^"]*)"')
	return {'decided', r, held and redis.call('HGET', RUNS, held) or '', paused or ''}
end

if definition ~= '' and definition ~= j[3] then
	if j[4] then return {'conflict', j[3], j[4]} end
	redis.call('SADD', JOBS, name)
	redis.call('HSET', JOB, 'definition', definition, 'since', int(now))
end

local taken, slot = 0, 0
if due then
	local last
	for other in string.gmatch(have[2] or '', '%S+') do taken, last = taken + 1, other end
	if taken >= slots then return {'taken', redis.call('HGET', RUNS, last) or ''} end
	local pruned = tonumber(j[6] or '0')
	if pruned > now then return {'watermark', j[6], int(now)} end
	if due <= pruned then return {'taken', ''} end
	if due > now then return {'skew', int(now)} end
	slot = taken + 1
end

-- record puts the decision on record, and what of the job changes with it.
local function record(tail, ...)
	local r = head .. (due and ',"slot":' .. slot or '') .. tail .. ',"start":' .. int(now) .. '}'
	if not j[1] then redis.call('SADD', JOBS, name) end
	if due then
		redis.call('HSET', RUNS, id, r, field, have[2] and have[2] .. ' ' .. id or id)
	else
		redis.call('HSET', RUNS, id, r)
	end
	if select('#', ...) > 0 then redis.call('HSET', JOB, ...) end
	local n = redis.call('RPUSH', ORDER, id)
	if n >= history + 64 then forget(redis.call('LRANGE', ORDER, 0, n - history - 1), live, math.huge) end
end

local function skip(reason, held, holder)
	record((held and ',"held":"' .. held .. '"' or '') .. ',"skip":"' .. reason .. '"')
	return {'skipped', int(now), tostring(slot), reason, held or '', holder or '', paused or '', int(seen)}
end

local function lease(fence)
	live[#live + 1] = {id = id}
	local line = id .. ' ' .. int(now) .. ' ' .. ARGV[15] .. ' -\n'
	local lines = (lost and redis.call('HGET', JOB, 'live') or j[1] or '') .. line
	if fence then
		record(',"fence":' .. fence, 'live', lines, 'fence', fence)
	else
		record('', 'live', lines)
	end
	return {'lease', int(now), tostring(slot), fence or '0', success}
end

if due then
	if seen > 0 and due <= seen then return skip('store-restarted') end
	if paused then return skip('paused') end
	if deadline > 0 and offered - due > deadline then return skip('late') end
end

if policy == 'allow' then return lease() end

local function held(record, expires, doubt)
	return {'held', record, int(offered), int(expires), doubt and int(seen) or '0'}
end

if seen > 0 and now < seen + quarantine then return held('', seen + quarantine, true) end

local mine = place and place.id == id
local same = place and not mine and due and place.due == ARGV[7]

if #live == 0 then
	if place and not mine and not same then
		if catchup or place.granted <= offered then return held(place.record, place.expires) end
		return skip('overlap', place.id, place.record)
	end
	if place then redis.call('HDEL', JOB, 'place') end
	return lease(int(math.max(tonumber(j[7] or '0') + 1, now)))
end

local known, reason = false, 'orphans'
for _, l in ipairs(live) do
	known = known or l.granted > offered
	if not flagged(l, 'o') then reason = 'overlap' end
end
local holder, expires = redis.call('HGET', RUNS, live[1].id), live[1].granted + live[1].ttl
local waits = policy == 'wait' or policy == 'replace'
if catchup then return held(holder, expires) end
if waits and (not place or mine) then
	redis.call('HSET', JOB, 'place', id .. ' ' .. (due and ARGV[7] or '-') .. ' ' .. int(now) .. ' ' .. int(now + ttl) ..
		' ' .. head .. ',"start":' .. int(offered) .. '}')
	mine = true
end
if not known or same and waits then return held(holder, expires) end
if mine and now - offered < wait then
	if policy == 'replace' then
		local asked, request = {}, nil
		for _, l in ipairs(live) do
			if not flagged(l, 's') then asked[#asked + 1] = '"' .. l.id .. '"' end
		end
		if #asked > 0 then
			request = '{"kind":"stop","job":' .. cjson.encode(name) .. ',"by":"run ' .. id .. '","at":' .. int(now) ..
				',"runs":[' .. table.concat(asked, ',') .. ']}'
			for _, l in ipairs(live) do
				if not flagged(l, 's') then
					flag(l, 's')
					redis.call('HSET', JOB, 'stop:' .. l.id, request)
				end
			end
			keep(live)
			redis.call('RPUSH', REQUESTS, request)
		end
	end
	return held(holder, expires)
end
if mine then redis.call('HDEL', JOB, 'place') end
return skip(reason, live[1].id, holder)
