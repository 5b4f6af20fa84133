-- A claim's first part: most ticks have nothing in their way, and run.
local history, name, id = ARGV[3], ARGV[4], ARGV[5]
local field, due, definition, policy = ARGV[6], tonumber(ARGV[7]), ARGV[9], ARGV[10] -- field and due are of the tick; without one '' and nil
local offered, ttl, head = tonumber(ARGV[13]) or now, ARGV[15], ARGV[16]

local bucket, info = redis.call('GET', BUCKET), redis.call('INFO', 'replication')
local j = redis.call('HMGET', JOB, 'live', 'place', 'definition', 'since', 'paused', 'pruned', 'fence', 'success', 'r:' .. id, field)
local live, place, paused, fence, success, taken = j[1], j[2], j[5], j[7], j[8] or '', j[10]
local answer, length

if due and live == '' and fence and not place and not paused and not j[9] and not taken and policy ~= 'allow' and string.sub(field, -2) == '/1'
	and (definition == '' or definition == j[3])
	and due <= now and now > tonumber(fence) and due > tonumber(j[6] or '0') and tonumber(j[6] or '0') <= now
	and (ARGV[12] == '0' or offered - due <= tonumber(ARGV[12]))
	-- FORMAT REPLID RUN SEEN, see sight: the same server, and what it may lack is over.
	and bucket and string.sub(bucket, 1, 2) == '1 ' and due > tonumber(string.sub(bucket, 85)) and now >= string.sub(bucket, 85) + ARGV[2]
	and string.find(info, 'master_replid:' .. string.sub(bucket, 3, 42), 1, true)
then
	redis.call('HSET', JOB, 'r:' .. id, head .. ',"slot":1,"fence":' .. stamp .. ',"start":' .. stamp .. '}',
		field, id, 'live', '\n' .. id .. ' ' .. stamp .. ' ' .. ttl .. ' ---', 'fence', stamp)
	length = redis.call('RPUSH', ORDER, id)
	answer = {'lease', stamp, '1', stamp, success}
	if length < history + 64 then return answer end
	live = {}
end
