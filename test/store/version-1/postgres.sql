create schema {schema};
create table {schema}.migration (
  version integer primary key,
  applied_at timestamptz not null default clock_timestamp()
);
insert into {schema}.migration (version) values (1);
create table {schema}.run (
  sequence bigint generated always as identity primary key,
  run_id text collate "C" not null unique,
  title text not null,
  status text not null check (status in ('open', 'paused', 'ended')),
  epoch integer not null,
  record_count integer not null,
  owner_token text not null, -- stays when the run is given up
  owner_hostname text, -- null: nobody owns it
  owner_process_id bigint,
  heartbeat_at timestamptz not null default clock_timestamp(),
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);
create index run_by_status on {schema}.run (status, sequence);
create table {schema}.journal (
  run bigint not null references {schema}.run on delete cascade,
  number integer not null,
  record text not null,
  primary key (run, number)
);
create sequence {schema}.session_written;
create table {schema}.session (
  session_id text collate "C" primary key,
  version integer not null,
  body text not null,
  written bigint not null unique default nextval('{schema}.session_written'), -- in the order of writing
  updated_at timestamptz not null default clock_timestamp()
);

insert into {schema}.run (run_id, title, status, epoch, record_count, owner_token, owner_hostname, owner_process_id, heartbeat_at,
  created_at, updated_at)
values ('run_1', 'it rests', 'paused', 2, 2, 'a', null, null, to_timestamp(1.1), to_timestamp(1), to_timestamp(1.2)),
  ('run_2', 'it has ended', 'ended', 1, 1, 'b', null, null, to_timestamp(1.1), to_timestamp(1), to_timestamp(1.2)),
  ('run_3', 'it was left', 'open', 1, 0, 'c', 'elsewhere', 7, to_timestamp(1.1), to_timestamp(1), to_timestamp(1.2));
insert into {schema}.journal (run, number, record) values (1, 1, '"1"'), (1, 2, '"2"'), (2, 1, '"3"');
insert into {schema}.session (session_id, version, body) values ('session_1', 3, '{}');
