-- request records what a person asks of a job, if it changes anything.
CREATE OR REPLACE FUNCTION {schema}.request(c jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, {schema}, pg_temp AS $$
DECLARE
	this_job text  := c->>'job';
	asked    jsonb := c->'request';
	kind     text  := asked->>'kind';
	t        timestamptz;
BEGIN
	PERFORM alone(), durable();
	IF kind IN ('define', 'pause') THEN
		INSERT INTO jobs (job) VALUES (this_job) ON CONFLICT DO NOTHING;
	END IF;
	PERFORM FROM jobs WHERE job = this_job FOR UPDATE;
	t := store_time();
	asked := asked || jsonb_build_object('at', t);
	CASE kind
	WHEN 'define' THEN
		UPDATE jobs SET definition = coalesce(asked->'definition', '{}'), since = t
		WHERE job = this_job AND (since IS NULL OR definition <> coalesce(asked->'definition', '{}'));
	WHEN 'pause' THEN
		UPDATE jobs SET paused = asked WHERE job = this_job AND paused IS NULL;
	WHEN 'resume' THEN
		UPDATE jobs SET paused = NULL, resumed = t WHERE job = this_job AND paused IS NOT NULL;
	WHEN 'reset-watermark' THEN
		UPDATE jobs SET pruned = t WHERE job = this_job AND pruned > t;
	ELSE
		PERFORM ask_runs(this_job, t, asked, false);
		RETURN jsonb_build_object('answer', 'done');
	END CASE;
	IF FOUND THEN
		INSERT INTO requests (job, request) VALUES (this_job, asked);
	END IF;
	RETURN jsonb_build_object('answer', 'done');
END $$;

-- prune forgets up to so many of a job's runs that were decided before a time,
-- oldest first.
CREATE OR REPLACE FUNCTION {schema}.prune(c jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, {schema}, pg_temp AS $$
DECLARE
	forgotten integer;
	highest   timestamptz;
BEGIN
	PERFORM alone(), durable();
	PERFORM FROM jobs WHERE job = c->>'job' FOR UPDATE;
	WITH old AS (
		SELECT id FROM runs
		WHERE job = c->>'job' AND started > '-infinity' AND started < (c->>'before')::timestamptz AND (skip IS NOT NULL OR outcome IS NOT NULL)
		ORDER BY started LIMIT (c->'limit')::integer
	), gone AS (
		DELETE FROM runs USING old WHERE runs.id = old.id RETURNING runs.tick
	)
	SELECT count(*), max(tick) INTO forgotten, highest FROM gone;
	UPDATE jobs SET pruned = greatest(pruned, highest) WHERE job = c->>'job' AND highest IS NOT NULL;
	RETURN jsonb_build_object('answer', 'done', 'count', forgotten);
END $$;

-- init makes the store known.
CREATE OR REPLACE FUNCTION {schema}.init(c jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, {schema}, pg_temp AS $$
DECLARE
	who text := identity();
BEGIN
	PERFORM alone(), durable();
	UPDATE store SET known = true, identity = who, seen = NULL WHERE NOT known OR identity IS DISTINCT FROM who;
	RETURN jsonb_build_object('answer', 'done');
END $$;

-- clock is the store's time.
CREATE OR REPLACE FUNCTION {schema}.clock(c jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE SET search_path = pg_catalog, {schema}, pg_temp AS $$
	SELECT jsonb_build_object('answer', 'done', 'now', store_time())
$$;

-- list_jobs gives the state of one job, or of all by name, as cronce.JobState
-- has it in JSON.
CREATE OR REPLACE FUNCTION {schema}.list_jobs(c jsonb) RETURNS SETOF jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, {schema}, pg_temp AS $$
	SELECT jsonb_strip_nulls(jsonb_build_object(
		'job', j.job, 'definition', j.definition, 'since', j.since, 'paused', j.paused, 'resumed', j.resumed, 'fence', j.fence,
		'live', (SELECT jsonb_agg(run_json(r) ORDER BY r.started, r.id) FROM runs r WHERE r.id = ANY (j.live)),
		'last', (SELECT run_json(r) FROM runs r WHERE r.job = j.job AND r.started > '-infinity' ORDER BY r.started DESC, r.id DESC LIMIT 1)))
	FROM jobs j WHERE NOT c ? 'job' OR j.job = c->>'job' ORDER BY j.job
$$;

-- list_runs gives the runs that a cronce.RunQuery selects, oldest first; tail
-- is a run's output.
CREATE OR REPLACE FUNCTION {schema}.list_runs(c jsonb) RETURNS SETOF jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, {schema}, pg_temp AS $$
BEGIN
	IF c ? 'id' THEN
		RETURN QUERY SELECT run_json(r) || jsonb_build_object('tail', encode(r.output, 'base64'))
			FROM runs r WHERE id = (c->>'id')::uuid AND (NOT c ? 'job' OR job = c->>'job')
			AND (NOT c ? 'since' OR started >= (c->>'since')::timestamptz);
		RETURN;
	END IF;
	-- Planned for what is asked, so that the index that goes with it is used.
	RETURN QUERY EXECUTE 'SELECT run_json(r) FROM (SELECT * FROM runs WHERE true'
		|| CASE WHEN c ? 'job' THEN ' AND job = $1 AND started > ''-infinity''' ELSE '' END
		|| CASE WHEN c ? 'since' THEN ' AND started >= $2' ELSE '' END
		|| ' ORDER BY started DESC, id DESC'
		|| CASE WHEN c ? 'limit' THEN ' LIMIT $3' ELSE '' END
		|| ') r ORDER BY started, id'
	USING c->>'job', (c->>'since')::timestamptz, (c->>'limit')::bigint;
END $$;

-- list_requests gives what was asked of a job, oldest first.
CREATE OR REPLACE FUNCTION {schema}.list_requests(c jsonb) RETURNS SETOF jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, {schema}, pg_temp AS $$
	SELECT request FROM (
		SELECT seq, request FROM requests WHERE job = c->>'job' ORDER BY seq DESC LIMIT (c->>'limit')::bigint
	) newest ORDER BY seq
$$;
