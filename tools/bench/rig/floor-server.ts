/**
 * The floor of a measurement: a bare WebSocket server and `pg`, in a process of its own. Calls that came in one
 * frame, or while a statement ran, share the next one. A grant is one upsert that the database's clock decides,
 * with a fencing token and an event; so is a release. There is no identity, idempotency, queue or limit: what a
 * service takes beside this is what its promises and its layers cost. A look reads the rows of all names that were asked
 * for together. It uses nothing of Leasehold, so that no layer of ours hides in it. Ends with the process that started it.
 */
import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { connectionOf } from '@leasehold/service-kit';
import pg from 'pg';
import { WebSocketServer, type RawData, type WebSocket } from 'ws';

/** A call: a look, an acquire, or with a lease id the release of it. */
interface Call {
  readonly id: number;
  readonly name: string;
  readonly isLook?: true;
  leaseId?: string;
}
interface Waiting extends Call {
  readonly socket: WebSocket;
}

const TTL_MS = 30_000;
const SCHEMA = `
  create table floor_lease (
    namespace text, name text, lease_id uuid not null, fencing_token bigint not null, granted_at timestamptz,
    expires_at timestamptz, released_at timestamptz, primary key (namespace, name)
  ) with (fillfactor = 50);
  create table floor_event (
    id bigint generated always as identity primary key, at timestamptz default clock_timestamp(),
    namespace text, name text, lease_id uuid, fencing_token bigint, kind text, actor text
  );
  create index on floor_event (namespace, name, id);
  create index on floor_event (at)`;
const GRANT = `
  with wanted as (
    select * from unnest($1::text[], $2::text[], $3::uuid[], $4::int[]) w (namespace, name, lease_id, ttl_ms)
  ), granted as (
    insert into floor_lease as l (namespace, name, lease_id, fencing_token, granted_at, expires_at)
    select namespace, name, lease_id, (extract(epoch from clock_timestamp()) * 1000)::bigint, clock_timestamp(),
      clock_timestamp() + ttl_ms * interval '1 millisecond'
    from wanted order by namespace, name
    on conflict (namespace, name) do update set
      lease_id = excluded.lease_id, fencing_token = greatest(l.fencing_token + 1, excluded.fencing_token),
      granted_at = clock_timestamp(), expires_at = excluded.expires_at, released_at = null
      where l.released_at is not null or l.expires_at < clock_timestamp()
    returning l.namespace, l.name, l.lease_id, l.fencing_token
  ), fact as (
    insert into floor_event (namespace, name, lease_id, fencing_token, kind, actor)
    select namespace, name, lease_id, fencing_token, 'granted', 'floor' from granted
  )
  select lease_id, fencing_token from granted`;
const RELEASE = `
  with ended as (
    update floor_lease l set released_at = clock_timestamp()
    from unnest($1::text[], $2::text[], $3::uuid[]) w (namespace, name, lease_id)
    where l.namespace = w.namespace and l.name = w.name and l.lease_id = w.lease_id and l.released_at is null
    returning l.namespace, l.name, l.lease_id, l.fencing_token
  ), fact as (
    insert into floor_event (namespace, name, lease_id, fencing_token, kind, actor)
    select namespace, name, lease_id, fencing_token, 'released', 'floor' from ended
  )
  select lease_id from ended`;
const LOOK = `
  select l.name, l.lease_id, l.fencing_token, l.expires_at
  from unnest($1::text[], $2::text[]) w (namespace, name)
  join floor_lease l on l.namespace = w.namespace and l.name = w.name`;

const [databaseUrl] = process.argv.slice(2);
if (databaseUrl === undefined) throw new Error('usage: DATABASE_URL');
process.once('disconnect', () => process.exit(0));
const client = new pg.Client(connectionOf(databaseUrl));
await client.connect();
await client.query(SCHEMA);

let grants: Waiting[] = [];
let releases: Waiting[] = [];
let looks: Waiting[] = [];
let isBusy = false;
const answers = new Map<WebSocket, object[]>();

function answer({ socket, id }: Waiting, body: object): void {
  const bodies = answers.get(socket) ?? [];
  answers.set(socket, bodies);
  bodies.push({ id, ...body });
}

async function grant(calls: readonly Waiting[]): Promise<void> {
  for (const call of calls) call.leaseId = randomUUID();
  const { rows } = await client.query<{ lease_id: string; fencing_token: string }>({
    name: 'grant',
    text: GRANT,
    values: [
      calls.map(() => 'floor'),
      calls.map((call) => call.name),
      calls.map((call) => call.leaseId),
      calls.map(() => TTL_MS),
    ],
  });
  const tokens = new Map(rows.map((row) => [row.lease_id, row.fencing_token]));
  for (const call of calls) {
    answer(call, { leaseId: call.leaseId, token: tokens.get(call.leaseId ?? '') });
  }
}

async function release(calls: readonly Waiting[]): Promise<void> {
  await client.query({
    name: 'release',
    text: RELEASE,
    values: [
      calls.map(() => 'floor'),
      calls.map((call) => call.name),
      calls.map((call) => call.leaseId),
    ],
  });
  for (const call of calls) answer(call, {});
}

async function look(calls: readonly Waiting[]): Promise<void> {
  const names = [...new Set(calls.map((call) => call.name))];
  const { rows } = await client.query<{ name: string; lease_id: string; fencing_token: string }>({
    name: 'look',
    text: LOOK,
    values: [names.map(() => 'floor'), names],
  });
  const found = new Map(rows.map((row) => [row.name, row]));
  for (const call of calls) {
    const row = found.get(call.name);
    answer(call, { leaseId: row?.lease_id, token: row?.fencing_token });
  }
}

async function pump(): Promise<void> {
  if (isBusy) return;
  isBusy = true;
  while (grants.length + releases.length + looks.length > 0) {
    const [granted, released, looked] = [grants, releases, looks];
    [grants, releases, looks] = [[], [], []];
    await Promise.all([
      ...(looked.length > 0 ? [look(looked)] : []),
      ...(granted.length > 0 ? [grant(granted)] : []),
      ...(released.length > 0 ? [release(released)] : []),
    ]);
    for (const [socket, bodies] of answers) socket.send(JSON.stringify(bodies));
    answers.clear();
  }
  isBusy = false;
}

function textOfFrame(frame: RawData): string {
  return Buffer.isBuffer(frame) ? frame.toString() : '[]';
}

const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
server.on('connection', (socket) => {
  socket.on('message', (frame) => {
    for (const call of JSON.parse(textOfFrame(frame)) as Call[]) {
      const others = call.leaseId === undefined ? grants : releases;
      (call.isLook === true ? looks : others).push({ ...call, socket });
    }
    void pump();
  });
});
server.on('listening', () => {
  process.send?.(`ws://127.0.0.1:${String((server.address() as AddressInfo).port)}`);
});
