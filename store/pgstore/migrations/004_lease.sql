-- A run is found by its id, and its job is only compared: IS TRUE keeps that from
-- an index of whole jobs.

-- renew makes a lease end its TTL from now.
CREATE OR REPLACE FUNCTION {schema}.renew(c jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, {schema}, pg_temp AS $$
DECLARE
	t timestamptz;
	r runs;
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		PERFORM alone();
	END IF;
	PERFORM durable() FROM jobs WHERE job = c->>'job' FOR UPDATE;
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

-- finish records a result and gives up the lease. As in claim, the job's row is
-- seen as it is when it is there: while the run is among its live ones, nobody
-- else has ended it.
CREATE OR REPLACE FUNCTION {schema}.finish(c jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, {schema}, pg_temp AS $$
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		PERFORM alone();
	END IF;
	FOR try IN 1..2 LOOP
		WITH mine AS MATERIALIZED (
			SELECT id, coalesce(tick, started) AS success FROM runs
			WHERE id = (c->>'run')::uuid AND outcome IS NULL AND expires > store_time() AND durable() IS NOT NULL
		), job AS (
			UPDATE jobs SET live = array_remove(live, mine.id), success = CASE c->>'outcome' WHEN 'succeeded' THEN mine.success ELSE jobs.success END
			FROM mine WHERE job = c->>'job' AND mine.id = ANY (live)
			RETURNING store_time() AS t
		)
		UPDATE runs SET ended = t, outcome = c->>'outcome', exit_code = (c->>'exit')::integer, signal = c->>'signal',
			message = c->>'message', output_bytes = (c->>'output')::bigint, tries = (c->>'attempts')::integer,
			output = decode(c->>'tail', 'base64')
		FROM job WHERE id = (c->>'run')::uuid;
		IF FOUND THEN
			RETURN '{"answer": "done"}';
		END IF;
		-- Renewed since the statement began? With the row there is no such thing.
		PERFORM FROM jobs WHERE job = c->>'job' FOR UPDATE;
	END LOOP;
	-- It may have been finished by an earlier call whose reply was lost.
	PERFORM FROM runs WHERE id = (c->>'run')::uuid AND (job = c->>'job') IS TRUE AND outcome <> 'lost';
	RETURN jsonb_build_object('answer', CASE WHEN FOUND THEN 'done' ELSE 'lost' END);
END $$;
