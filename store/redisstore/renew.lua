local id, holder, record, orphaned = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
local now, stamp = clock()
local j = redis.call('HMGET', JOB, 'live', 'r:' .. id)
local granted, ttl, flags, before, after = leased(j[1] or '', id)
if not granted or granted + ttl <= now then return {'lost'} end
if flagged(flags, 'r') then return {'revoked', redis.call('HGET', JOB, 'revoke:' .. id)} end
if orphaned and not flagged(flags, 'o') then flags = (flags == '-' and '' or flags) .. 'o' end
redis.call('HSET', JOB, 'live', before .. line(id, stamp, int(ttl), flags) .. after)
if not string.find(j[2], holder, 1, true) then redis.call('HSET', JOB, 'r:' .. id, record) end
return {'renewed', stamp, int(ttl), flagged(flags, 's') and redis.call('HGET', JOB, 'stop:' .. id) or ''}
