-- line finds a run among the live ones, each ID GRANTED TTL FLAGS after a newline
-- and all but the id of one width: where its line begins, where its id ends, and its
-- flags if the lease has not ended. Flags: o, only what the run left behind goes on;
-- s, it was asked to stop; r, it was revoked.
local function line(live, id)
	local from, to = string.find(live, '\n' .. id .. ' ', 1, true)
	if from and string.sub(live, to + 1, to + 16) + string.sub(live, to + 18, to + 25) > now then
		return from, to, string.sub(live, to + 27, to + 29)
	end
end
