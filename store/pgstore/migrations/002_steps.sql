-- What every step is made of. (What is here in language sql is inlined where it is
-- called; what could not be is in plpgsql, which keeps its plans.) The functions take and give JSON; each is one
-- step, in one transaction, by the server's clock. All names are looked for in
-- pg_catalog and {schema} only, whatever the session's search_path says.

-- micros is a time in microseconds since 1970.
CREATE OR REPLACE FUNCTION {schema}.micros(t timestamptz) RETURNS bigint
LANGUAGE sql STABLE AS $$ SELECT (extract(epoch FROM t) * 1000000)::bigint $$;

-- store_time is the store's clock, read by a step when it has its job's row: of
-- two steps of a job the later one has the later time.
CREATE OR REPLACE FUNCTION {schema}.store_time() RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$ SELECT pg_catalog.clock_timestamp() $$;

-- span is a number of microseconds as an interval.
CREATE OR REPLACE FUNCTION {schema}.span(micros text) RETURNS interval
LANGUAGE sql IMMUTABLE AS $$ SELECT micros::bigint * interval '1 microsecond' $$;

-- identity names the server and these tables: the cluster, its timeline (a
-- promoted replica and a restored backup have a new one), the database and the
-- table (a dump that was loaded has new ones). A crash changes none of them.
CREATE OR REPLACE FUNCTION {schema}.identity() RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	RETURN (SELECT system_identifier FROM pg_control_system())
		|| '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
		|| '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || 'store'::regclass::oid;
END $$;

-- instance changes whenever the identity does: a server gets another timeline
-- only by being started as a replica, and its own start is not the one of the
-- server that wrote the row. It is a tenth of the identity's work.
CREATE OR REPLACE FUNCTION {schema}.instance(store oid) RETURNS text
LANGUAGE sql STABLE AS $$
	SELECT {schema}.micros(pg_catalog.pg_postmaster_start_time())
		|| pg_catalog.rtrim(pg_catalog.pg_relation_filepath(store::pg_catalog.regclass), '0123456789') || store
$$;

-- durable makes this transaction wait for the disk (and for synchronous
-- replicas), whatever the server, the database or the role has been told.
CREATE OR REPLACE FUNCTION {schema}.durable() RETURNS text
LANGUAGE sql VOLATILE AS $$
	SELECT pg_catalog.set_config('synchronous_commit',
		CASE pg_catalog.current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)
$$;

-- alone refuses a transaction under which a step would not see what others have
-- committed while it waited for its job's row.
CREATE OR REPLACE FUNCTION {schema}.alone() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION 'a step needs a transaction at READ COMMITTED' USING ERRCODE = 'CRN01';
	END IF;
END $$;

-- told is an answer. One that changed nothing rests on what is on disk already,
-- and waits for it no more than a reader does: of a fleet's claims for a tick all
-- but one are such.
CREATE OR REPLACE FUNCTION {schema}.told(changed boolean, answer jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF NOT changed THEN
		PERFORM pg_catalog.set_config('synchronous_commit', 'off', true);
	END IF;
	RETURN answer;
END $$;

-- run_json is a run as cronce.Run has it in JSON.
CREATE OR REPLACE FUNCTION {schema}.run_json(r {schema}.runs) RETURNS jsonb
LANGUAGE sql STABLE AS $$
	SELECT pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
		'id', r.id, 'job', r.job, 'tick', r.tick, 'slot', r.slot, 'attempt', r.attempt, 'fence', r.fence,
		'holder', r.holder, 'skip', r.skip, 'held', r.held, 'start', r.started, 'end', r.ended, 'outcome', r.outcome,
		'expires', CASE WHEN r.outcome IS NULL THEN r.expires END,
		'exit', r.exit_code, 'signal', r.signal, 'message', r.message, 'output', r.output_bytes, 'attempts', r.tries))
$$;

-- lease_json is the answer that gives a lease.
CREATE OR REPLACE FUNCTION {schema}.lease_json(r {schema}.runs, success timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS $$
	SELECT pg_catalog.jsonb_build_object('answer', 'lease', 'run', {schema}.run_json(r), 'granted', r.granted,
		'ttl', {schema}.micros(r.expires) - {schema}.micros(r.granted), 'success', success, 'stop', r.stop)
$$;
