create table run (
  sequence integer primary key autoincrement,
  run_id text not null unique,
  title text not null,
  status text not null check (status in ('open', 'paused', 'ended')),
  epoch integer not null,
  record_count integer not null,
  owner_token text not null, -- stays when the run is given up
  owner_hostname text, -- null: nobody owns it
  owner_process_id integer,
  heartbeat_at_ms integer not null,
  created_at_ms integer not null,
  updated_at_ms integer not null
) strict;
create index run_by_status on run (status, sequence);
create table journal (
  run integer not null,
  number integer not null,
  record text not null,
  primary key (run, number)
) strict, without rowid;
create table session (
  session_id text primary key,
  version integer not null,
  body text not null,
  written integer not null unique, -- in the order of writing
  updated_at_ms integer not null
) strict;

insert into run (run_id, title, status, epoch, record_count, owner_token, owner_hostname, owner_process_id, heartbeat_at_ms,
  created_at_ms, updated_at_ms)
values ('run_1', 'it rests', 'paused', 2, 2, 'a', null, null, 1100, 1000, 1200),
  ('run_2', 'it has ended', 'ended', 1, 1, 'b', null, null, 1100, 1000, 1200),
  ('run_3', 'it was left', 'open', 1, 0, 'c', 'elsewhere', 7, 1100, 1000, 1200);
insert into journal (run, number, record) values (1, 1, '"1"'), (1, 2, '"2"'), (2, 1, '"3"');
insert into session (session_id, version, body, written, updated_at_ms) values ('session_1', 3, '{}', 5, 1000);
pragma application_id = 1702064236;
pragma user_version = 1;
