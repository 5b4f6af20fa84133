-- request records what a person asks of a job, if it changes anything, and what is to be
-- on record only.
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
	WHEN 'prune', 'ended' THEN
		PERFORM FROM jobs WHERE job = this_job;
	ELSE
		PERFORM ask_runs(this_job, t, asked, false);
		RETURN jsonb_build_object('answer', 'done');
	END CASE;
	IF FOUND THEN
		INSERT INTO requests (job, request) VALUES (this_job, asked);
	END IF;
	RETURN jsonb_build_object('answer', 'done');
END $$;
