-- Decides a tick, in the order of answers that cronce.Driver gives.
local function bound()
	if length < history + 64 then return end
	local lives = {[id] = true}
	for _, l in ipairs(live) do lives[l.id] = true end
	forget(redis.call('LRANGE', ORDER, 0, length - history - 1), lives, math.huge)
end

if answer then
	bound()
	return answer
end

local quarantine, slots, catchup = ARGV[2], tonumber(ARGV[8]), ARGV[14] == '1'
local seen, refused = sight(bucket, info)
if refused then return refused end

live = leases(live)
local ended = false
for i = #live, 1, -1 do
	local l = live[i]
	if l.granted + l.ttl <= now then
		redis.call('HSET', JOB, 'e:' .. l.id, '"outcome":"lost","end":' .. stamp)
		redis.call('HDEL', JOB, 'stop:' .. l.id, 'revoke:' .. l.id)
		table.remove(live, i)
		ended = true
	end
end
local function record(id) return records({id}, 1, 1)[1] or '' end
local function keep() redis.call('HSET', JOB, 'live', lines(live)) end
if ended then keep() end

if place then
	local p = {}
	p.id, p.due, p.granted, p.expires, p.record = string.match(place, '^(%S+) (%S+) (%d+) (%d+) (.*)$')
	place = p
	if tonumber(p.expires) <= now then
		redis.call('HDEL', JOB, 'place')
		place = nil
	end
end

if j[9] then
	for _, l in ipairs(live) do
		if l.id == id then
			if flagged(l, 'r') then return {'revoked', redis.call('HGET', JOB, 'revoke:' .. id)} end
			l.granted = now
			keep()
			return {'again', stamp, int(l.ttl), success, j[9]}
		end
	end
	local held = string.match(j[9], '"held":"([^"]*)"')
	return {'decided', record(id), held and record(held) or '', paused or ''}
end

if definition ~= '' and definition ~= j[3] then
	if j[4] then return {'conflict', j[3], j[4]} end
	redis.call('SADD', JOBS, name)
	redis.call('HSET', JOB, 'definition', definition, 'since', stamp)
end

local function held(record, expires, doubt)
	return {'held', record, int(offered), int(expires), doubt or '0'}
end

-- rerun says why a tick is not to be run again, of which so many runs were by now.
local function rerun(again)
	local lost, first, alive = 0, nil, nil
	for other in string.gmatch(redis.call('HGET', JOB, string.sub(field, 1, -2) .. '1') or '', '%S+') do
		first = other
		local e = redis.call('HGET', JOB, 'e:' .. other)
		if e and string.find(e, '"outcome":"lost"', 1, true) then lost = lost + 1 end
		for _, l in ipairs(live) do
			if l.id == other then alive = l end
		end
	end
	if again >= lost and alive then return held(record(alive.id), alive.granted + alive.ttl) end
	local taken = {'taken', first and record(first) or ''}
	if again >= lost then return taken end
	for _, f in ipairs(redis.call('HKEYS', JOB)) do
		local tick = string.match(f, '^t:(%d+)/')
		if tick and tick * 1000000 > due then return taken end
	end
end

local slot = '0'
if due then
	local n, last = 0, nil
	for other in string.gmatch(taken or '', '%S+') do n, last = n + 1, other end
	if n >= slots then return {'taken', record(last)} end
	local pruned = tonumber(j[6] or '0')
	if pruned > now then return {'watermark', j[6], stamp} end
	if due <= pruned then return {'taken', ''} end
	if due > now then return {'skew', stamp} end
	local refused = string.sub(field, -2) ~= '/1' and rerun(n)
	if refused then return refused end
	slot = int(n + 1)
end

-- decide puts the decision on record, and what of the job changes with it.
local function decide(tail, ...)
	redis.call('SADD', JOBS, name)
	if due then
		local r = head .. ',"slot":' .. slot .. tail .. ',"start":' .. stamp .. '}'
		redis.call('HSET', JOB, 'r:' .. id, r, field, taken and taken .. ' ' .. id or id, ...)
	else
		redis.call('HSET', JOB, 'r:' .. id, head .. tail .. ',"start":' .. stamp .. '}', ...)
	end
	length = redis.call('RPUSH', ORDER, id)
	bound()
end

local function lease(fence)
	local line = lines(live) .. '\n' .. id .. ' ' .. stamp .. ' ' .. ttl .. ' ---'
	if fence then
		decide(',"fence":' .. fence, 'live', line, 'fence', fence)
	else
		decide('', 'live', line)
	end
	return {'lease', stamp, slot, fence or '0', success}
end

local function skip(reason, held, holder)
	decide((held and ',"held":"' .. held .. '"' or '') .. ',"skip":"' .. reason .. '"', 'live', lines(live))
	return {'skipped', stamp, slot, reason, held or '', holder or '', paused or '', int(seen)}
end

if due then
	local deadline = tonumber(ARGV[12])
	if seen > 0 and due <= seen then return skip('store-restarted') end
	if paused then return skip('paused') end
	if deadline > 0 and offered - due > deadline then return skip('late') end
end

if policy == 'allow' then return lease() end

if seen > 0 and now < seen + quarantine then return held('', seen + quarantine, int(seen)) end

local mine = place and place.id == id
local same = place and not mine and due and place.due == ARGV[7]

if #live == 0 then
	if place and not mine and not same then
		if catchup or tonumber(place.granted) <= offered then return held(place.record, place.expires) end
		return skip('overlap', place.id, place.record)
	end
	if place then redis.call('HDEL', JOB, 'place') end
	if fence and tonumber(fence) >= now then return lease(int(fence + 1)) end
	return lease(stamp)
end

local known, reason = false, 'orphans'
for _, l in ipairs(live) do
	known = known or l.granted > offered
	if not flagged(l, 'o') then reason = 'overlap' end
end
local holder, expires = redis.call('HGET', JOB, 'r:' .. live[1].id), live[1].granted + live[1].ttl
local waits = policy == 'wait' or policy == 'replace'
if catchup then return held(holder, expires) end
if waits and (not place or mine) then
	redis.call('HSET', JOB, 'place', id .. ' ' .. (due and ARGV[7] or '-') .. ' ' .. stamp .. ' ' .. int(now + ttl) ..
		' ' .. head .. ',"start":' .. int(offered) .. '}')
	mine = true
end
if not known or same and waits then return held(holder, expires) end
if mine and now - offered < tonumber(ARGV[11]) then
	local asked = {}
	for _, l in ipairs(live) do
		if policy == 'replace' and not flagged(l, 's') then asked[#asked + 1] = l end
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
		keep()
		redis.call('RPUSH', REQUESTS, request)
	end
	return held(holder, expires)
end
if mine then redis.call('HDEL', JOB, 'place') end
return skip(reason, live[1].id, holder)
