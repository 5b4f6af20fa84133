-- The one row about the store itself. Its identity is that of the server and of
-- these very tables: another one means that decisions may have been lost.
CREATE TABLE {schema}.store (
	one       boolean PRIMARY KEY DEFAULT true CHECK (one),
	format    integer NOT NULL, -- a program that does not know it keeps away
	migration integer NOT NULL, -- the last one that was run
	known     boolean NOT NULL DEFAULT false,
	identity  text,             -- none: nothing was ever claimed here
	seen      timestamptz,      -- when it first saw that it is not known
	checked   text              -- the instance for which the identity was compared
);
INSERT INTO {schema}.store (format, migration) VALUES (1, 0);

-- A job's row is its lock: whatever changes the job or its runs has it first.
-- It is never deleted: it has the fence.
CREATE TABLE {schema}.jobs (
	job          text COLLATE "C" PRIMARY KEY,
	definition   jsonb NOT NULL DEFAULT '{}',
	since        timestamptz,
	paused       jsonb,        -- the request
	resumed      timestamptz,
	fence        bigint NOT NULL DEFAULT 0,
	given        timestamptz,  -- when that was
	live         uuid[] NOT NULL DEFAULT '{}', -- runs that have not ended, oldest first
	success      timestamptz,  -- the tick (by hand: the start) that succeeded last
	pruned       timestamptz,  -- the watermark: the highest tick that was dropped
	wait_run     uuid,         -- who has the place to wait, until it expires
	wait_tick    timestamptz,
	wait_holder  jsonb,
	wait_offered timestamptz,
	wait_granted timestamptz,
	wait_expires timestamptz
) WITH (fillfactor = 50);

-- A run is a decided tick (or a run by hand) and, while it lives, a lease.
CREATE TABLE {schema}.runs (
	id           uuid PRIMARY KEY,
	job          text COLLATE "C" NOT NULL,
	tick         timestamptz,  -- none: by hand
	attempt      integer NOT NULL,
	slot         integer,
	fence        bigint,
	holder       jsonb NOT NULL,
	skip         text,         -- why it was not run
	held         uuid,         -- for a skip: by which run
	started      timestamptz NOT NULL,
	ended        timestamptz,
	granted      timestamptz,  -- the claim or the last renewal
	expires      timestamptz,
	orphaned     boolean NOT NULL DEFAULT false,
	stop         jsonb,        -- the request, as in revoked
	revoked      jsonb,
	outcome      text,
	exit_code    integer,
	signal       text,
	message      text,
	output_bytes bigint,
	tries        integer,
	output       bytea,
	UNIQUE (job, tick, attempt, slot)
) WITH (fillfactor = 70);
-- Only what asks for started > '-infinity' uses this one: a look-up of a tick must
-- not, which it could where nothing is known of how many rows a job has.
CREATE INDEX runs_of_job ON {schema}.runs (job, started) WHERE started > '-infinity';
CREATE INDEX runs_started ON {schema}.runs (started);

-- What people asked for, as cronce.Request has it in JSON.
CREATE TABLE {schema}.requests (
	seq     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	job     text COLLATE "C" NOT NULL,
	request jsonb NOT NULL
);
CREATE INDEX requests_of_job ON {schema}.requests (job, seq);
