-- A job has one hash: its state, each of its runs (r:ID, a JSON object), how
-- they ended (e:ID, what the object has then at its end) and what decided each
-- tick (t:TICK/ATTEMPT, ids).
local JOB, ORDER, BUCKET, JOBS, REQUESTS, OUTPUT = unpack(KEYS)

