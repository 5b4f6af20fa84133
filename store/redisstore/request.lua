-- Carries out what a person asks, and puts it on record where it changed anything.
local kind, name, head, definition, kept = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local bucket = redis.call('GET', BUCKET)
local refused = unknown(bucket)
if refused then return refused end
if bucket then missed(name, 0, 0) end
local request = head .. ',"at":' .. stamp .. '}'

if kind == 'define' then
	local j = redis.call('HMGET', JOB, 'definition', 'since')
	if j[2] and j[1] == definition then return {'unchanged'} end
	redis.call('HSET', JOB, 'definition', definition, 'since', stamp)
	redis.call('SADD', JOBS, name)
elseif kind == 'pause' then
	if redis.call('HSETNX', JOB, 'paused', request) == 0 then return {'unchanged'} end
	redis.call('SADD', JOBS, name)
elseif kind == 'resume' then
	if redis.call('HDEL', JOB, 'paused') == 0 then return {'unchanged'} end
	redis.call('HSET', JOB, 'resumed', stamp)
elseif kind == 'reset-watermark' then
	if tonumber(redis.call('HGET', JOB, 'pruned') or '0') <= now then return {'unchanged'} end
	redis.call('HSET', JOB, 'pruned', stamp)
elseif kind == 'prune' or kind == 'ended' then
	if redis.call('EXISTS', JOB) == 0 then return {'unchanged'} end
elseif kind == 'stop' or kind == 'revoke' then
	local live, asked = leases(redis.call('HGET', JOB, 'live')), {}
	for _, l in ipairs(live) do
		if l.granted + l.ttl > now then
			flag(l, kind == 'stop' and 's' or 'r')
			asked[#asked + 1] = '"' .. l.id .. '"'
		end
	end
	if #asked == 0 then return {'unchanged'} end
	redis.call('HSET', JOB, 'live', lines(live))
	request = head .. ',"at":' .. stamp .. ',"runs":[' .. table.concat(asked, ',') .. ']}'
	for _, l in ipairs(live) do
		if l.granted + l.ttl > now then redis.call('HSET', JOB, kind .. ':' .. l.id, request) end
	end
else
	return redis.error_reply('ERR no such request: ' .. kind)
end
redis.call('RPUSH', REQUESTS, request)
redis.call('LTRIM', REQUESTS, -kept, -1)
return {'changed'}
