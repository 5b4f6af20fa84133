-- Claims of several jobs of a bucket, in as few steps as can be: Lua's are most of
-- their time, and it reads each new text byte by byte. KEYS: the bucket, its list of
-- jobs, then the hash and the order of each job, and of one that is alone the requests.
-- ARGV: clock, quarantine, history, and what A of each begins with:
local ID, FIELD, DUE, LAST, DEFINITION, TTL, HEAD, REST, FENCE, A = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
-- DUE and FIELD are of the tick, and '' without one; LAST is until when it is in time,
-- HEAD the record's beginning, REST what only claims need that find something in
-- their way, FENCE the job's highest that the caller has seen.
local bucket, info = redis.call('GET', KEYS[1]), redis.call('INFO', 'replication')
local answers, left, full = {}, nil, nil

-- FORMAT REPLID RUN SEEN, see sight: the same server, and what it may lack is over.
local seen = bucket and string.sub(bucket, 1, 2) == '1 '
	and string.find(info, 'master_replid:' .. string.sub(bucket, 3, 42), 1, true)
	and tonumber(string.sub(bucket, 85))
if seen and now < seen + ARGV[2] then seen = nil end

-- lives tells whether a run has a lease that has not ended; with several it leaves
-- that open.
local function lives(live)
	local granted, ttl = string.match(live, '^\n%S+ (%d+) (%d+) %S+$')
	return granted and granted + ttl > now
end

-- quick decides what most claims meet: nothing, or that another has decided the tick.
local function quick(i, a)
	local job, id, field, due, definition = KEYS[i], ARGV[a], ARGV[a + FIELD], tonumber(ARGV[a + DUE]), ARGV[a + DEFINITION]
	if not due or not seen then return end
	local j = redis.call('HMGET', job, 'live', 'place', 'paused', 'pruned', 'fence', 'success', 'definition', 'r:' .. id, field)
	local live, fence, taken = j[1], j[5], j[9]
	if not live or not fence or tonumber(fence) < tonumber(ARGV[a + FENCE]) or j[8] or definition ~= '' and definition ~= j[7] then return end
	if taken then
		if live ~= '' and not lives(live) or string.find(ARGV[a + REST], '^1 ') == nil or string.find(taken, ' ', 1, true) then return end
		local parts = redis.call('HMGET', job, 'r:' .. taken, 'e:' .. taken)
		local r, e = parts[1], parts[2]
		return {'taken', r and e and string.sub(r, 1, -2) .. ',' .. e .. '}' or r or ''}
	end
	if live ~= '' or j[2] or j[3] or due > now or due <= seen or now <= tonumber(fence)
		or now > tonumber(ARGV[a + LAST]) or j[4] and due <= tonumber(j[4])
	then
		return
	end
	redis.call('HSET', job, 'r:' .. id, ARGV[a + HEAD] .. ',"slot":1,"fence":' .. stamp .. ',"start":' .. stamp .. '}',
		field, id, 'live', '\n' .. id .. ' ' .. stamp .. ' ' .. ARGV[a + TTL] .. ' ---', 'fence', stamp)
	if (redis.call('RPUSH', KEYS[i + 1], id) - ARGV[3]) % 64 == 0 then
		full = full or {}
		full[#full + 1] = i
	end
	return {'lease', stamp, '1', stamp, j[6] or ''}
end

local n = math.floor((#ARGV - 3) / A)
for k = 1, n do
	local answer = quick(2 * k + 1, A * k - A + 4)
	if answer then
		answers[k] = answer
	else
		left = left or {}
		left[#left + 1] = k
	end
end
if not left and not full then return answers end
local BUCKET, JOBS, JOB, ORDER = KEYS[1], KEYS[2], nil, nil
