-- Decides a tick, in the order of answers that cronce.Driver gives.
local quarantine, history, name, id = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local field, due, slots = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]) -- field and due are of the tick; without one '' and nil
local definition, policy, offered = ARGV[9], ARGV[10], tonumber(ARGV[13])
local catchup, ttl, head = ARGV[14] == '1', ARGV[15], ARGV[16]

local now, stamp = clock()
local seen, refused = sight(now, stamp)
if refused then return refused end
offered = offered or now

local j = redis.call('HMGET', JOB, 'live', 'place', 'definition', 'since', 'paused', 'pruned', 'fence', 'success', 'r:' .. id, field)
local lines, paused, success, taken = j[1] or '', j[5], j[8] or '', j[10]
local live, place = lines == '' and {} or leases(lines), nil

for i = #live, 1, -1 do
	local l = live[i]
	if l.granted + l.ttl <= now then
		redis.call('HSET', JOB, 'r:' .. l.id, close(redis.call('HGET', JOB, 'r:' .. l.id), '"outcome":"lost"', stamp))
		drop(l.id, l.flags)
		table.remove(live, i)
		lines = nil
	end
end
if not lines then
	keep(live)
	lines = redis.call('HGET', JOB, 'live')
end

if j[2] then
	place = {}
	place.id, place.due, place.granted, place.expires, place.record = string.match(j[2], '^(%S+) (%S+) (%d+) (%d+) (.*)$')
	if tonumber(place.expires) <= now then
		redis.call('HDEL', JOB, 'place')
		place = nil
	end
end

if j[9] then
	for _, l in ipairs(live) do
		if l.id == id then
			if flagged(l.flags, 'r') then return {'revoked', redis.call('HGET', JOB, 'revoke:' .. id)} end
			l.granted = now
			keep(live)
			return {'again', stamp, int(l.ttl), success, j[9]}
		end
	end
	local r = redis.call('HGET', JOB, 'r:' .. id)
	local held = string.match(r, '"held":"([^"]*)"')
	return {'decided', r, held and redis.call('HGET', JOB, 'r:' .. held) or '', paused or ''}
end

if definition ~= '' and definition ~= j[3] then
	if j[4] then return {'conflict', j[3], j[4]} end
	redis.call('SADD', JOBS, name)
	redis.call('HSET', JOB, 'definition', definition, 'since', stamp)
end

local slot = '0'
if due then
	local n, last = 0, nil
	if taken then
		for other in string.gmatch(taken, '%S+') do n, last = n + 1, other end
		if n >= slots then return {'taken', redis.call('HGET', JOB, 'r:' .. last) or ''} end
	end
	local pruned = tonumber(j[6] or '0')
	if pruned > now then return {'watermark', j[6], stamp} end
	if due <= pruned then return {'taken', ''} end
	if due > now then return {'skew', stamp} end
	slot = int(n + 1)
end

-- record puts the decision on record, and what of the job changes with it.
local function record(tail, ...)
	if not j[1] then redis.call('SADD', JOBS, name) end
	if due then
		local r = head .. ',"slot":' .. slot .. tail .. ',"start":' .. stamp .. '}'
		redis.call('HSET', JOB, 'r:' .. id, r, field, taken and taken .. ' ' .. id or id, ...)
	else
		redis.call('HSET', JOB, 'r:' .. id, head .. tail .. ',"start":' .. stamp .. '}', ...)
	end
	local n = redis.call('RPUSH', ORDER, id)
	if n >= history + 64 then
		local lives = {[id] = true}
		for _, l in ipairs(live) do lives[l.id] = true end
		forget(redis.call('LRANGE', ORDER, 0, n - history - 1), lives, math.huge)
	end
end

local function skip(reason, held, holder)
	record((held and ',"held":"' .. held .. '"' or '') .. ',"skip":"' .. reason .. '"', 'live', lines)
	return {'skipped', stamp, slot, reason, held or '', holder or '', paused or '', int(seen)}
end

local function held(record, expires, doubt)
	return {'held', record, int(offered), int(expires), doubt or '0'}
end

if due then
	local deadline = tonumber(ARGV[12])
	if seen > 0 and due <= seen then return skip('store-restarted') end
	if paused then return skip('paused') end
	if deadline > 0 and offered - due > deadline then return skip('late') end
end

if policy == 'allow' then
	record('', 'live', lines .. line(id, stamp, ttl, '-'))
	return {'lease', stamp, slot, '0', success}
end

if seen > 0 and now < seen + quarantine then return held('', seen + quarantine, int(seen)) end

local mine = place and place.id == id
local same = place and not mine and due and place.due == ARGV[7]

if #live == 0 then
	if place and not mine and not same then
		if catchup or tonumber(place.granted) <= offered then return held(place.record, place.expires) end
		return skip('overlap', place.id, place.record)
	end
	if place then redis.call('HDEL', JOB, 'place') end
	local fence = stamp
	if j[7] and tonumber(j[7]) >= now then fence = int(j[7] + 1) end
	record(',"fence":' .. fence, 'live', line(id, stamp, ttl, '-'), 'fence', fence)
	return {'lease', stamp, slot, fence, success}
end

local known, reason = false, 'orphans'
for _, l in ipairs(live) do
	known = known or l.granted > offered
	if not flagged(l.flags, 'o') then reason = 'overlap' end
end
local holder, expires = redis.call('HGET', JOB, 'r:' .. live[1].id), live[1].granted + live[1].ttl
local waits = policy == 'wait' or policy == 'replace'
if catchup then return held(holder, expires) end
if waits and (not place or mine) then
	redis.call('SADD', JOBS, name)
	redis.call('HSET', JOB, 'place', id .. ' ' .. (due and ARGV[7] or '-') .. ' ' .. stamp .. ' ' .. int(now + ttl) ..
		' ' .. head .. ',"start":' .. int(offered) .. '}')
	mine = true
end
if not known or same and waits then return held(holder, expires) end
if mine and now - offered < tonumber(ARGV[11]) then
	local asked = {}
	for _, l in ipairs(live) do
		if policy == 'replace' and not flagged(l.flags, 's') then asked[#asked + 1] = l end
	end
	if #asked > 0 then
		local ids = {}
		for i, l in ipairs(asked) do ids[i] = '"' .. l.id .. '"' end
		local request = '{"kind":"stop","job":' .. cjson.encode(name) .. ',"by":"run ' .. id .. '","at":' .. stamp ..
			',"runs":[' .. table.concat(ids, ',') .. ']}'
		for _, l in ipairs(asked) do
			flag(l, 's')
			redis.call('HSET', JOB, 'stop:' .. l.id, request)
		end
		keep(live)
		redis.call('RPUSH', REQUESTS, request)
	end
	return held(holder, expires)
end
if mine then redis.call('HDEL', JOB, 'place') end
return skip(reason, live[1].id, holder)
