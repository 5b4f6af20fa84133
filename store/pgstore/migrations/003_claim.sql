-- claim decides a tick. Most often nothing is in its way: then one statement gives
-- the lease, as each costs more than what it does. It looks at the job's row as
-- it is when it has it, at all else as it was before: that the tick was decided
-- in the meantime is found by the unique key, which ends the transaction, and the
-- caller asks again with care. Whatever is in the way is for decide to tell.
CREATE OR REPLACE FUNCTION {schema}.claim(c jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, {schema}, pg_temp AS $$
DECLARE
	answer jsonb;
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
			AND EXISTS (SELECT FROM store WHERE known AND checked = instance(tableoid))
			AND NOT EXISTS (SELECT FROM runs WHERE job = c->>'job' AND tick = (c->>'tick')::timestamptz AND attempt = (c->'attempt')::integer)
			AND durable() IS NOT NULL
		RETURNING fence, given, success
	), run AS (
		INSERT INTO runs (id, job, tick, attempt, slot, fence, holder, started, granted, expires)
		SELECT (c->>'run')::uuid, c->>'job', (c->>'tick')::timestamptz, (c->'attempt')::integer, 1, fence, c->'holder', given, given, given + span(c->>'ttl')
		FROM free
	)
	SELECT jsonb_build_object('answer', 'lease', 'granted', given, 'ttl', c->'ttl', 'success', success, 'run', jsonb_build_object(
		'id', c->'run', 'job', c->'job', 'tick', c->'tick', 'slot', 1, 'attempt', c->'attempt', 'fence', fence,
		'holder', c->'holder', 'start', given))
	INTO answer FROM free;
	IF FOUND THEN
		RETURN answer;
	END IF;
	RETURN decide(c);
END $$;

-- decide decides a tick, in the order that cronce.Driver gives.
CREATE OR REPLACE FUNCTION {schema}.decide(c jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	this_run  uuid        := c->>'run';
	this_job  text        := c->>'job';
	this_tick timestamptz := c->>'tick'; -- none: by hand
	try       integer     := (c->'attempt')::integer;
	policy    text        := c->>'overlap';
	waits     boolean     := policy IN ('wait', 'replace');
	catch_up  boolean     := coalesce((c->'catch_up')::boolean, false);
	ttl       interval    := span(c->>'ttl');
	offered   timestamptz := c->>'offered';
	t         timestamptz; -- now
	who       text := identity();
	j         jobs;
	s         store;
	r         runs;
	holder    runs;        -- of the runs that live, the oldest
	alive     boolean := false; -- one of them is known to live
	orphans   boolean := true;  -- all of them are orphaned
	changed   boolean := false;  -- something is to be kept, without a decision
	this_slot integer;           -- none: by hand
	mine      boolean; -- this run has the place to wait
	same      boolean; -- another has it, for the same tick
	answer    jsonb;
BEGIN
	PERFORM durable();
	SELECT * INTO j FROM jobs WHERE job = this_job FOR UPDATE;
	IF NOT FOUND THEN
		INSERT INTO jobs (job) VALUES (this_job) ON CONFLICT DO NOTHING;
		SELECT * INTO j FROM jobs WHERE job = this_job FOR UPDATE;
	END IF;
	t := store_time();
	offered := coalesce(offered, t);

	SELECT * INTO STRICT s FROM store;
	IF s.identity IS DISTINCT FROM who OR NOT s.known AND s.seen IS NULL THEN
		-- Of many that see it at once, one writes it down.
		UPDATE store SET known = false, seen = t, identity = who
		WHERE identity IS DISTINCT FROM who OR NOT known AND seen IS NULL;
		SELECT * INTO STRICT s FROM store;
		changed := true;
	END IF;
	IF s.checked IS DISTINCT FROM instance('store'::regclass) THEN
		UPDATE store SET checked = instance('store'::regclass);
	END IF;

	IF j.live <> '{}' THEN
		FOR r IN SELECT * FROM runs WHERE id = ANY (j.live) ORDER BY started, id LOOP
			IF r.expires <= t THEN
				UPDATE runs SET outcome = 'lost', ended = t WHERE id = r.id;
				j.live := array_remove(j.live, r.id);
				changed := true;
				CONTINUE;
			END IF;
			IF holder.id IS NULL THEN
				holder := r;
			END IF;
			alive := alive OR r.granted > offered;
			orphans := orphans AND r.orphaned;
		END LOOP;
		IF changed THEN
			UPDATE jobs SET live = j.live WHERE job = this_job;
		END IF;
	END IF;
	IF j.wait_expires <= t THEN
		j.wait_run := NULL;
	END IF;

	-- The slots of a tick are given from 1 on, so that the highest is their number.
	IF this_tick IS NULL THEN
		SELECT * INTO r FROM runs WHERE id = this_run AND (job = this_job) IS TRUE;
	ELSE
		SELECT * INTO r FROM runs WHERE job = this_job AND tick = this_tick AND attempt = try
		ORDER BY id = this_run DESC, slot DESC LIMIT 1;
	END IF;
	IF r.id = this_run THEN
		RETURN claim_again(r, j, t);
	END IF;

	IF c ? 'definition' AND c->'definition' <> j.definition THEN
		IF j.since IS NOT NULL THEN
			RETURN told(changed, jsonb_build_object('answer', 'conflict', 'definition', j.definition, 'since', j.since));
		END IF;
		UPDATE jobs SET definition = c->'definition', since = t WHERE job = this_job;
		changed := true;
	END IF;

	IF this_tick IS NOT NULL THEN
		IF r.slot >= (c->'slots')::integer THEN
			RETURN told(changed, jsonb_build_object('answer', 'taken', 'run', run_json(r)));
		ELSIF j.pruned > t THEN
			RETURN told(changed, jsonb_build_object('answer', 'watermark', 'now', t, 'watermark', j.pruned));
		ELSIF this_tick <= j.pruned THEN
			RETURN told(changed, jsonb_build_object('answer', 'taken', 'run', jsonb_build_object('job', this_job, 'tick', this_tick)));
		ELSIF this_tick > t THEN
			RETURN told(changed, jsonb_build_object('answer', 'skew', 'now', t));
		END IF;
		IF try > 1 THEN
			answer := claim_rerun(c, coalesce(r.slot, 0), offered);
			IF answer IS NOT NULL THEN
				RETURN told(changed, answer);
			END IF;
		END IF;
		this_slot := coalesce(r.slot, 0) + 1;
		IF NOT s.known AND this_tick <= s.seen THEN
			RETURN claim_skip(c, j, t, this_slot, 'store-restarted', NULL);
		ELSIF j.paused IS NOT NULL THEN
			RETURN claim_skip(c, j, t, this_slot, 'paused', NULL);
		ELSIF offered - this_tick > span(c->>'deadline') THEN
			RETURN claim_skip(c, j, t, this_slot, 'late', NULL);
		END IF;
	END IF;

	IF policy <> 'allow' THEN
		IF NOT s.known AND t < s.seen + span(c->>'quarantine') THEN
			RETURN told(changed, jsonb_build_object('answer', 'held', 'offered', offered, 'run', jsonb_build_object('job', this_job),
				'expires', s.seen + span(c->>'quarantine')));
		END IF;

		mine := coalesce(j.wait_run = this_run, false);
		same := coalesce(j.wait_run <> this_run AND j.wait_tick = this_tick, false);
		IF holder.id IS NOT NULL THEN
			IF NOT catch_up THEN
				IF waits AND (mine OR j.wait_run IS NULL) THEN
					UPDATE jobs SET wait_run = this_run, wait_tick = this_tick, wait_holder = c->'holder',
						wait_offered = offered, wait_granted = t, wait_expires = t + ttl
					WHERE job = this_job RETURNING * INTO j;
					mine := true;
					changed := true;
				END IF;
				IF alive AND NOT (same AND waits) AND NOT (mine AND t - offered < span(c->>'wait')) THEN
					RETURN claim_skip(c, j, t, this_slot, CASE WHEN orphans THEN 'orphans' ELSE 'overlap' END, run_json(holder));
				END IF;
				IF alive AND mine AND policy = 'replace' THEN
					PERFORM ask_runs(this_job, t, jsonb_build_object('kind', 'stop', 'job', this_job, 'by', 'run ' || this_run, 'at', t), true);
				END IF;
			END IF;
			RETURN told(changed, jsonb_build_object('answer', 'held', 'offered', offered, 'run', run_json(holder), 'expires', holder.expires));
		ELSIF j.wait_run IS NOT NULL AND NOT mine AND NOT same THEN
			IF catch_up OR j.wait_granted <= offered THEN
				RETURN told(changed, jsonb_build_object('answer', 'held', 'offered', offered, 'run', waiter_json(j), 'expires', j.wait_expires));
			END IF;
			RETURN claim_skip(c, j, t, this_slot, 'overlap', waiter_json(j));
		END IF;

		j.fence := greatest(j.fence + 1, micros(t));
		j.wait_run := NULL;
	END IF;

	UPDATE jobs SET fence = j.fence, given = CASE policy WHEN 'allow' THEN given ELSE t END, wait_run = j.wait_run, live = j.live || this_run WHERE job = this_job;

	INSERT INTO runs (id, job, tick, attempt, slot, fence, holder, started, granted, expires)
	VALUES (this_run, this_job, this_tick, try, this_slot,
		CASE WHEN policy <> 'allow' THEN j.fence END, c->'holder', t, t, t + ttl)
	RETURNING * INTO r;
	RETURN lease_json(r, j.success);
END $$;

-- claim_rerun says why a tick is not to be run again, of which so many runs were by
-- now; null: it may.
CREATE OR REPLACE FUNCTION {schema}.claim_rerun(c jsonb, again integer, offered timestamptz) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	this_job  text        := c->>'job';
	this_tick timestamptz := c->>'tick';
	first     runs;
	alive     runs;
	r         runs;
	lost      integer := 0;
BEGIN
	FOR r IN SELECT * FROM runs WHERE job = this_job AND tick = this_tick AND attempt = 1 ORDER BY slot LOOP
		first := r;
		IF r.outcome = 'lost' THEN
			lost := lost + 1;
		ELSIF r.outcome IS NULL AND r.skip IS NULL THEN
			alive := r;
		END IF;
	END LOOP;
	IF again >= lost AND alive.id IS NOT NULL THEN
		RETURN jsonb_build_object('answer', 'held', 'offered', offered, 'run', run_json(alive), 'expires', alive.expires);
	ELSIF first.id IS NULL THEN
		RETURN jsonb_build_object('answer', 'taken', 'run', jsonb_build_object('job', this_job, 'tick', this_tick));
	ELSIF again >= lost OR EXISTS (SELECT FROM runs WHERE job = this_job AND tick > this_tick) THEN
		RETURN jsonb_build_object('answer', 'taken', 'run', run_json(first));
	END IF;
	RETURN NULL;
END $$;

-- claim_again answers a claim that was decided before.
CREATE OR REPLACE FUNCTION {schema}.claim_again(r {schema}.runs, j {schema}.jobs, t timestamptz) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF r.skip IS NOT NULL THEN
		RETURN jsonb_build_object('answer', 'skipped', 'run', run_json(r),
			'holder', (SELECT run_json(h) FROM runs h WHERE id = r.held),
			'request', CASE WHEN r.skip = 'paused' THEN j.paused END);
	ELSIF r.outcome IS NOT NULL THEN
		RETURN jsonb_build_object('answer', 'taken', 'run', run_json(r));
	ELSIF r.revoked IS NOT NULL THEN
		RETURN jsonb_build_object('answer', 'revoked', 'request', r.revoked);
	END IF;
	UPDATE runs SET granted = t, expires = t + (expires - granted) WHERE id = r.id RETURNING * INTO r;
	RETURN lease_json(r, j.success);
END $$;

-- claim_skip decides the tick as a skip.
CREATE OR REPLACE FUNCTION {schema}.claim_skip(c jsonb, j {schema}.jobs, t timestamptz, slot integer, reason text, holder jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	r runs;
BEGIN
	INSERT INTO runs (id, job, tick, attempt, slot, holder, started, skip, held)
	VALUES ((c->>'run')::uuid, j.job, (c->>'tick')::timestamptz, (c->'attempt')::integer, claim_skip.slot,
		c->'holder', t, reason, (claim_skip.holder->>'id')::uuid)
	RETURNING * INTO r;
	IF j.wait_run = r.id THEN
		UPDATE jobs SET wait_run = NULL WHERE job = j.job;
	END IF;
	RETURN jsonb_build_object('answer', 'skipped', 'run', run_json(r), 'holder', holder,
		'request', CASE WHEN reason = 'paused' THEN j.paused END);
END $$;

-- waiter_json is who has the place to wait, as a run.
CREATE OR REPLACE FUNCTION {schema}.waiter_json(j {schema}.jobs) RETURNS jsonb
LANGUAGE sql STABLE AS $$
	SELECT pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
		'id', j.wait_run, 'job', j.job, 'tick', j.wait_tick, 'holder', j.wait_holder, 'start', j.wait_offered))
$$;

-- ask_runs hands a request to stop or to revoke to the runs that live, or only
-- to those that have not been asked yet, and puts it on record if there are any.
CREATE OR REPLACE FUNCTION {schema}.ask_runs(this_job text, t timestamptz, asked jsonb, once boolean) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	ids uuid[];
BEGIN
	ids := ARRAY(SELECT id FROM runs WHERE id = ANY (ARRAY(SELECT unnest(live) FROM jobs WHERE job = this_job)) AND expires > t
		AND NOT (once AND stop IS NOT NULL) ORDER BY started, id);
	IF cardinality(ids) = 0 THEN
		RETURN;
	END IF;
	asked := asked || jsonb_build_object('runs', to_jsonb(ids));
	IF asked->>'kind' = 'stop' THEN
		UPDATE runs SET stop = asked WHERE id = ANY (ids);
	ELSE
		UPDATE runs SET revoked = asked WHERE id = ANY (ids);
	END IF;
	INSERT INTO requests (job, request) VALUES (this_job, asked);
END $$;
