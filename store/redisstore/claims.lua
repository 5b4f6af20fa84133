if left then
	local seen, refused = sight(bucket, info)
	if refused then return refused end
	for _, k in ipairs(left) do
		JOB, ORDER = KEYS[2 * k + 1], KEYS[2 * k + 2]
		local a = A * k - A + 4
		seen = missed(string.sub(JOB, #BUCKET + 6), tonumber(ARGV[a + FENCE]), seen)
		answers[k] = claim(a, seen)
	end
end
for _, i in ipairs(full or {}) do
	JOB, ORDER = KEYS[i], KEYS[i + 1]
	bound(redis.call('LLEN', ORDER), leases(redis.call('HGET', JOB, 'live')), tonumber(ARGV[3]))
end
return answers
