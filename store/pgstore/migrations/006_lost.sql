-- What was taken out of the tables, or put back into them, while programs go on.
-- From there on the store is not known, which the next claim of anybody sees: a
-- tick at or before that moment that is not on record is skipped, and no lease is
-- given for a while.

-- lose puts on record that decisions may have been lost, until now.
CREATE OR REPLACE FUNCTION {schema}.lose() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, {schema}, pg_temp AS $$
BEGIN
	UPDATE store SET known = false, seen = store_time();
	RETURN NULL;
END $$;

-- lose_runs does so where a run was dropped that lives, or whose tick the watermark
-- does not tell of.
CREATE OR REPLACE FUNCTION {schema}.lose_runs() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, {schema}, pg_temp AS $$
BEGIN
	UPDATE store SET known = false, seen = store_time()
	WHERE EXISTS (SELECT FROM gone LEFT JOIN jobs USING (job)
		WHERE skip IS NULL AND outcome IS NULL OR tick > coalesce(pruned, '-infinity'));
	RETURN NULL;
END $$;

-- lose_job does so where a job is made that has runs, unless that was known.
CREATE OR REPLACE FUNCTION {schema}.lose_job() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, {schema}, pg_temp AS $$
BEGIN
	UPDATE store SET known = false, seen = store_time()
	WHERE EXISTS (SELECT FROM runs WHERE job = NEW.job AND started > '-infinity' AND started > coalesce(seen, '-infinity'));
	RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS made ON {schema}.jobs;
CREATE TRIGGER made AFTER INSERT ON {schema}.jobs FOR EACH ROW EXECUTE FUNCTION {schema}.lose_job();
DROP TRIGGER IF EXISTS lost ON {schema}.jobs;
CREATE TRIGGER lost AFTER DELETE OR TRUNCATE ON {schema}.jobs EXECUTE FUNCTION {schema}.lose();
DROP TRIGGER IF EXISTS lost ON {schema}.runs;
CREATE TRIGGER lost AFTER TRUNCATE ON {schema}.runs EXECUTE FUNCTION {schema}.lose();
DROP TRIGGER IF EXISTS lost_some ON {schema}.runs;
CREATE TRIGGER lost_some AFTER DELETE ON {schema}.runs REFERENCING OLD TABLE AS gone EXECUTE FUNCTION {schema}.lose_runs();
-- The row came from a copy: who knows from when.
DROP TRIGGER IF EXISTS lost ON {schema}.store;
CREATE TRIGGER lost AFTER INSERT ON {schema}.store EXECUTE FUNCTION {schema}.lose();

-- doubt looks for what no trigger has told of: runs that the job's row names and
-- that are not there, or a fence below the one that the caller has seen, unless the
-- store has not been known since.
CREATE OR REPLACE FUNCTION {schema}.doubt(c jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	this_job   text   := c->>'job';
	fence_seen bigint := coalesce((c->'fence')::bigint, 0);
	j          jobs;
	s          store;
	kept       uuid[];
BEGIN
	PERFORM durable();
	SELECT * INTO j FROM jobs WHERE job = this_job FOR UPDATE;
	IF NOT FOUND THEN
		INSERT INTO jobs (job) VALUES (this_job) ON CONFLICT DO NOTHING;
		SELECT * INTO j FROM jobs WHERE job = this_job FOR UPDATE;
	END IF;
	kept := ARRAY(SELECT id FROM unnest(j.live) WITH ORDINALITY AS l (id, n) JOIN runs USING (id) ORDER BY n);
	SELECT * INTO STRICT s FROM store;
	IF kept <> j.live AND (j.given <= s.seen) IS NOT TRUE
		OR fence_seen > greatest(j.fence, micros(s.seen))
	THEN
		UPDATE store SET known = false, seen = store_time();
	END IF;
	IF kept <> j.live OR fence_seen > j.fence THEN
		UPDATE jobs SET live = kept, fence = greatest(fence, fence_seen) WHERE job = this_job;
	END IF;
END $$;

-- claim decides a tick, as before, and in the same statement looks whether what
-- it finds of the job is whole.
CREATE OR REPLACE FUNCTION {schema}.claim(c jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, {schema}, pg_temp AS $$
DECLARE
	answer   jsonb;
	whole    boolean;
	known_as text;
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		PERFORM alone();
	END IF;
	WITH free AS (
		UPDATE jobs SET fence = greatest(fence + 1, micros(store_time())), given = store_time(), live = ARRAY[(c->>'run')::uuid]
		WHERE job = c->>'job' AND c ? 'tick' AND c->>'overlap' <> 'allow' AND NOT c ? 'care' AND (c->'attempt')::integer = 1
			AND live = '{}' AND wait_run IS NULL AND paused IS NULL AND (c->'definition' = definition) IS NOT FALSE
			AND (c->>'tick')::timestamptz > coalesce(pruned, '-infinity') AND store_time() >= coalesce(pruned, '-infinity')
			AND (c->>'tick')::timestamptz <= store_time()
			AND (coalesce((c->>'offered')::timestamptz, store_time()) - (c->>'tick')::timestamptz > span(c->>'deadline')) IS NOT TRUE
			AND fence >= coalesce((c->'fence')::bigint, 0)
			AND EXISTS (SELECT FROM store WHERE known AND checked = instance(tableoid))
			AND NOT EXISTS (SELECT FROM runs WHERE job = c->>'job' AND tick = (c->>'tick')::timestamptz AND attempt = (c->'attempt')::integer)
			AND durable() IS NOT NULL
		RETURNING fence, given, success
	), run AS (
		INSERT INTO runs (id, job, tick, attempt, slot, fence, holder, started, granted, expires)
		SELECT (c->>'run')::uuid, c->>'job', (c->>'tick')::timestamptz, (c->'attempt')::integer, 1, fence, c->'holder', given, given, given + span(c->>'ttl')
		FROM free
	)
	SELECT (SELECT jsonb_build_object('answer', 'lease', 'granted', given, 'ttl', c->'ttl', 'success', success, 'run', jsonb_build_object(
			'id', c->'run', 'job', c->'job', 'tick', c->'tick', 'slot', 1, 'attempt', c->'attempt', 'fence', fence,
			'holder', c->'holder', 'start', given)) FROM free),
		EXISTS (SELECT FROM free) OR EXISTS (SELECT FROM jobs j WHERE job = c->>'job' AND fence >= coalesce((c->'fence')::bigint, 0)
			AND (live = '{}' OR cardinality(live) = (SELECT count(*) FROM runs r WHERE r.id = ANY (j.live)))),
		(SELECT identity FROM store WHERE known)
	INTO answer, whole, known_as;
	IF answer IS NOT NULL THEN
		RETURN answer;
	END IF;
	IF NOT whole THEN
		PERFORM doubt(c);
	END IF;
	answer := decide(c);
	IF NOT whole THEN
		PERFORM durable();
	END IF;
	IF answer->>'answer' = 'lease' AND c->>'overlap' <> 'allow' AND EXISTS (SELECT FROM store WHERE NOT known AND identity = known_as) THEN
		-- Rows were taken away after decide had looked whether the store is known.
		RAISE EXCEPTION 'decisions were lost meanwhile' USING ERRCODE = 'unique_violation';
	END IF;
	RETURN answer;
END $$;

-- renew makes a lease end its TTL from now, if the job has it on record.
CREATE OR REPLACE FUNCTION {schema}.renew(c jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, {schema}, pg_temp AS $$
DECLARE
	t timestamptz;
	r runs;
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		PERFORM alone();
	END IF;
	PERFORM durable() FROM jobs WHERE job = c->>'job' AND (c->>'run')::uuid = ANY (live) FOR UPDATE;
	IF NOT FOUND THEN
		RETURN jsonb_build_object('answer', 'lost');
	END IF;
	t := store_time();
	UPDATE runs SET granted = t, expires = t + (expires - granted), holder = c->'holder',
		orphaned = orphaned OR (c->'orphaned')::boolean
	WHERE id = (c->>'run')::uuid AND (job = c->>'job') IS TRUE AND skip IS NULL AND outcome IS NULL AND expires > t AND revoked IS NULL
	RETURNING * INTO r;
	IF FOUND THEN
		RETURN jsonb_build_object('answer', 'lease', 'granted', r.granted, 'ttl', micros(r.expires) - micros(r.granted), 'stop', r.stop);
	END IF;
	SELECT * INTO r FROM runs
	WHERE id = (c->>'run')::uuid AND (job = c->>'job') IS TRUE AND skip IS NULL AND outcome IS NULL AND expires > t;
	IF FOUND THEN
		RETURN jsonb_build_object('answer', 'revoked', 'request', r.revoked);
	END IF;
	RETURN jsonb_build_object('answer', 'lost');
END $$;

-- prune forgets up to so many of a job's runs that were decided before a time,
-- oldest first, and raises the watermark in the same statement.
CREATE OR REPLACE FUNCTION {schema}.prune(c jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, {schema}, pg_temp AS $$
DECLARE
	forgotten integer;
BEGIN
	PERFORM alone(), durable();
	PERFORM FROM jobs WHERE job = c->>'job' FOR UPDATE;
	WITH old AS (
		SELECT id FROM runs
		WHERE job = c->>'job' AND started > '-infinity' AND started < (c->>'before')::timestamptz AND (skip IS NOT NULL OR outcome IS NOT NULL)
		ORDER BY started LIMIT (c->'limit')::integer
	), gone AS (
		DELETE FROM runs USING old WHERE runs.id = old.id RETURNING runs.tick
	), most AS (
		SELECT count(*) AS n, max(tick) AS highest FROM gone
	), raised AS (
		UPDATE jobs SET pruned = greatest(pruned, highest) FROM most WHERE job = c->>'job' AND highest IS NOT NULL
	)
	SELECT n INTO forgotten FROM most;
	RETURN jsonb_build_object('answer', 'done', 'count', forgotten);
END $$;
