import { randomUUID } from 'node:crypto';
import {
  createControllerClient,
  leaseholdErrorOf,
  type ControllerApi,
  type ControllerClient,
} from '@leasehold/client';
import type { EventChanges, EventKind } from '@leasehold/keys-core';
import { repetitions, startFaultProxy, waitUntil, type FaultProxy } from '@leasehold/testing';
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  shareTestController,
  startTestController,
  type TestController,
} from './testing/test-controller.ts';

/** Transactions of other tests, in other databases of the cluster, may hold the stream back. */
const SOON = { timeoutMs: 30_000 };
const KILLS = repetitions({ gate: 20, short: 100, long: 100 });

/** Each test has namespaces of its own. */
let on: TestController;

shareTestController((shared) => {
  on = shared;
});

interface Watched {
  readonly ids: string[];
  readonly events: { id: string; kind: EventKind; namespace: string; name: string }[];
  /** The code that it ended with. */
  readonly endedWith: () => string | undefined;
  stop(): void;
}

type WatchInput = Parameters<ControllerApi['events']['watch']['subscribe']>[0];

/** Follows the stream as a client does; it reconnects and resumes by itself. */
function watch(client: ControllerClient, input: WatchInput, into?: Watched): Watched {
  const events: Watched['events'] = into?.events ?? [];
  const ids: string[] = into?.ids ?? [];
  let endCode: string | undefined;
  const subscription = client.api.events.watch.subscribe(input, {
    onData: ({ id, data }) => {
      ids.push(id);
      events.push(data);
    },
    onError: (error) => {
      endCode = leaseholdErrorOf(error)?.code ?? String(error);
    },
  });
  return {
    ids,
    events,
    endedWith: () => endCode,
    stop: () => {
      subscription.unsubscribe();
    },
  };
}

function clientOf(url: string, token: string): ControllerClient {
  const client = createControllerClient({ url, token, transport: 'ws', reconnectMsMax: 100 });
  onTestFinished(() => client.close());
  return client;
}

async function proxyOf(controller: TestController): Promise<FaultProxy> {
  const proxy = await startFaultProxy(targetOf(controller));
  onTestFinished(() => proxy.close());
  return proxy;
}

function targetOf({ url }: TestController): { host: string; port: number } {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}

/** Acquires and releases leases until told to stop. */
async function work(api: ControllerApi, name: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const answer = await api.leases.acquire.mutate({
      namespace: ['load', name],
      key: 'thing',
      ttlMs: 60_000,
      holder: name,
      localTimeMs: 1_000,
      idempotencyKey: randomUUID(),
    });
    if (answer.outcome !== 'granted') continue;
    const { leaseId, fencingToken } = answer.lease;
    await api.leases.release.mutate({ leaseId, fencingToken });
  }
}

async function idsIn({ controller }: TestController, namespace: string): Promise<string[]> {
  const rows = await controller.store.general.$queryRaw<{ id: string }[]>`
    select '1.' || v.id as id from lease_event v
    where starts_with(v.namespace, ${namespace}) order by v.id`;
  return rows.map(({ id }) => id);
}

/** Writes events in one statement, without any transition. */
async function insertEvents(
  { controller }: TestController,
  namespace: string,
  count: number,
): Promise<void> {
  await controller.store.general.$executeRaw`
    insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor)
    select 'lease', ${namespace}, 'thing', gen_random_uuid(), n, 'granted', 'test'
    from generate_series(1, ${count}::int) n`;
}

/** Adds the namespaces of all events that can be seen. */
async function readNamespaces(into: Set<string>): Promise<void> {
  const rows = await on.controller.store.general.$queryRaw<{ namespace: string }[]>`
    select distinct v.namespace from lease_event v`;
  for (const { namespace } of rows) into.add(namespace);
}

/** Opens a stream, which then goes on until the client is closed. */
function untilStarted(client: ControllerClient): Promise<void> {
  return new Promise((resolve) => {
    client.api.events.watch.subscribe({}, { onStarted: () => resolve() });
  });
}

/** The stream as server-sent events, by hand. */
async function openSse(
  controller: TestController,
  input: object,
  headers: Record<string, string> = {},
): Promise<{
  response: Response;
  text: () => string;
  ended: Promise<void>;
  leave: () => void;
}> {
  const { secret } = await controller.token('viewer');
  const leaving = new AbortController();
  const leave = (): void => {
    leaving.abort();
  };
  onTestFinished(leave);
  const query = encodeURIComponent(JSON.stringify(input));
  const response = await fetch(`${controller.url}/trpc/events.watch?input=${query}`, {
    headers: { authorization: `Bearer ${secret}`, accept: 'text/event-stream', ...headers },
    signal: leaving.signal,
  });
  let text = '';
  const read = async (): Promise<void> => {
    const decoder = new TextDecoder();
    try {
      for await (const chunk of response.body ?? []) text += decoder.decode(chunk as Uint8Array);
    } catch {
      // Cut off: what came before counts.
    }
  };
  return { response, text: () => text, ended: read(), leave };
}

describe('events.watch', () => {
  test(`I12 killed and resumed ${String(KILLS)} times under load, from two controllers: no event lost or doubled, order kept`, async () => {
    const two = await startTestController({ databaseUrl: on.databaseUrl });
    const proxy = await proxyOf(on);
    const { secret } = await on.token('viewer');
    const url = `http://${proxy.host}:${String(proxy.port)}`;
    let client = clientOf(url, secret);
    let watched = watch(client, { afterId: 'oldest', namespace: 'load' });
    const { ids } = watched;
    const stopping = new AbortController();
    const apis = await Promise.all([on, two, on, two].map((one) => one.client('client', 'ws')));
    const working = Promise.all(
      apis.map((api, at) => work(api, `worker-${String(at)}`, stopping.signal)),
    );
    working.catch(() => undefined);
    onTestFinished(() => stopping.abort());

    for (let kill = 0; kill < KILLS; kill += 1) {
      const seen = ids.length;
      await waitUntil(() => ids.length > seen + 2, SOON);
      proxy.setTarget(targetOf(kill % 2 === 0 ? two : on));
      if (kill % 5 === 4) {
        // The client itself dies, and another one resumes from what it had recorded.
        watched.stop();
        await client.close();
        client = clientOf(url, secret);
        const afterId = ids.at(-1) ?? 'oldest';
        watched = watch(client, { afterId, namespace: 'load' }, watched);
      } else proxy.cut();
    }
    stopping.abort();
    await working;
    const expected = await idsIn(on, 'load');
    await waitUntil(() => ids.length >= expected.length, SOON);

    expect(ids).toEqual(expected);
    expect(expected.length).toBeGreaterThan(2 * KILLS);
  }, 120_000);

  test('delivers events in the shape of the contract, with the ids of the history', async () => {
    const { secret } = await on.token('viewer');
    const watched = watch(clientOf(on.url, secret), { afterId: '0', namespace: 'jobs' });
    const api = await on.client('client', 'ws');

    const answer = await api.leases.acquire.mutate({
      namespace: ['jobs', 'nightly'],
      key: 'import',
      ttlMs: 60_000,
      holder: 'worker',
      localTimeMs: 1_000,
    });
    await waitUntil(() => watched.events.length === 1, SOON);
    const history = await api.leases.history.query({
      namespace: ['jobs', 'nightly'],
      key: 'import',
    });

    expect(answer.outcome).toBe('granted');
    expect(watched.events).toEqual(history.items);
    expect(watched.events[0]).toMatchObject({
      id: watched.ids[0],
      at: expect.stringMatching(/Z$/u) as string,
      face: 'lease',
      namespace: 'jobs.nightly',
      name: 'import',
      kind: 'granted',
      actor: 'test client',
      datacenter: 'local',
    });
  });

  test('a token that is limited to namespaces gets only their events, even if it asks for others', async () => {
    const { secret } = await on.token('viewer', { namespaces: ['team'] });
    const client = clientOf(on.url, secret);
    await insertEvents(on, 'other', 1);
    await insertEvents(on, 'team.a', 1);

    const all = watch(client, { afterId: 'oldest' });
    const foreign = watch(client, { afterId: 'oldest', namespace: 'other' });
    const own = watch(client, { afterId: 'oldest', namespace: 'team' });
    await waitUntil(() => all.events.length >= 1 && own.events.length >= 1, SOON);
    await insertEvents(on, 'other', 1);
    await insertEvents(on, 'team', 1);
    await waitUntil(() => all.events.length >= 2 && own.events.length >= 2, SOON);

    for (const { events } of [all, own]) {
      expect(events.map(({ namespace }) => namespace)).toEqual(['team.a', 'team']);
    }
    expect(foreign.events).toEqual([]);
  });

  test('a resume from before the oldest kept event, or from another database epoch, is reported', async () => {
    const alone = await startTestController();
    const { secret } = await alone.token('viewer');
    const client = clientOf(alone.url, secret);
    await insertEvents(alone, 'a', 5);
    const ids = await idsIn(alone, 'a');
    await alone.controller.store.general.$executeRaw`
      delete from lease_event where id <= (
        select id from lease_event where namespace = 'a' order by id offset 2 limit 1
      )`;

    const compacted = watch(client, { afterId: ids[0] });
    const otherLife = watch(client, { afterId: '9.1' });
    const nonsense = watch(client, { afterId: 'x' });
    await waitUntil(() => compacted.endedWith() && otherLife.endedWith() && nonsense.endedWith());
    const sse = await openSse(alone, { afterId: ids[0] });
    await waitUntil(() => sse.text().includes('serialized-error'));

    expect(compacted.endedWith()).toBe('events.compacted');
    expect(otherLife.endedWith()).toBe('events.other_epoch');
    expect(nonsense.endedWith()).toBe('request.invalid');
    expect(sse.text()).toContain('"leaseholdCode":"events.compacted"');
    expect(sse.text()).toContain(`"oldestId":"${String(ids[3])}"`);
  });

  test('over plain HTTP a stream counts for the limit of its token, until its reader leaves', async () => {
    await insertEvents(on, 'counted', 1);
    const { secret } = await on.token('viewer', { limits: { streams: 1 } });
    const headers = { authorization: `Bearer ${secret}` };
    const input = { afterId: 'oldest', namespace: 'counted' };
    const first = await openSse(on, {}, headers);

    const refused = await openSse(on, input, headers);
    await waitUntil(() => refused.text().includes('serialized-error'), SOON);
    first.leave();
    await waitUntil(async () => {
      const again = await openSse(on, input, headers);
      await waitUntil(() => /serialized-error|^id: /mu.test(again.text()), SOON);
      return again.text().includes('id: ');
    }, SOON);

    expect(refused.text()).toContain('"leaseholdCode":"quota.exceeded"');
    expect(refused.text()).toContain('"limit":"streams"');
    expect(refused.text()).not.toContain('id: ');
  });

  test('a stream whose caller leaves while it is opened gives its place back', async () => {
    const { secret, tokenId } = await on.token('viewer', { limits: { streams: 1 } });
    const admin = await on.client('admin');
    const isTaken = async (): Promise<boolean> => {
      const { fairUse } = await admin.tokens.get.query({ tokenId });
      return fairUse.some(({ limit, used }) => limit === 'streams' && used === 1);
    };
    // While this is under way, `events.changes` is not open.
    const early = new pg.Client({ connectionString: on.databaseUrl });
    await early.connect();
    onTestFinished(() => early.end());
    await early.query('begin');
    await early.query('select pg_current_xact_id()');
    const isFree = async (): Promise<boolean> => {
      const watched = watch(clientOf(on.url, secret), { afterId: 'oldest', namespace: 'left' });
      await waitUntil(() => watched.ids.length > 0 || watched.endedWith() !== undefined, SOON);
      watched.stop();
      return watched.ids.length > 0;
    };
    await insertEvents(on, 'left', 1);
    const leaving = new AbortController();
    const opening = fetch(`${on.url}/trpc/events.changes`, {
      headers: { authorization: `Bearer ${secret}`, accept: 'text/event-stream' },
      signal: leaving.signal,
    }).catch(() => undefined);
    await waitUntil(isTaken, SOON);
    expect(await isFree()).toBe(false);

    leaving.abort();
    await opening;
    await early.query('commit');

    await expect(waitUntil(isFree, SOON)).resolves.toBe(true);
  });

  test('a controller that stops cuts its readers off, and they continue at the next one', async () => {
    const stopped = await startTestController({ databaseUrl: on.databaseUrl });
    const proxy = await proxyOf(stopped);
    const { secret } = await on.token('viewer');
    const input = { afterId: 'oldest', namespace: 'continued' };
    const url = `http://${proxy.host}:${String(proxy.port)}`;
    const watched = watch(clientOf(url, secret), input);
    const sse = await openSse(stopped, input);
    await insertEvents(stopped, 'continued', 1);
    await waitUntil(() => watched.events.length === 1 && sse.text().includes('id: '), SOON);

    proxy.setTarget(targetOf(on));
    await stopped.controller.close();
    await sse.ended;
    await insertEvents(on, 'continued', 1);
    await waitUntil(() => watched.events.length === 2, SOON);

    expect(sse.text()).not.toContain('event: return');
    expect(watched.ids).toEqual(await idsIn(on, 'continued'));
    expect(watched.endedWith()).toBeUndefined();
  });
});

test('events.changes names what changes in the namespaces of its caller, and begins with what comes next', async () => {
  const { secret } = await on.token('viewer', { namespaces: ['crew'] });
  const client = clientOf(on.url, secret);
  await insertEvents(on, 'crew.before', 1);
  const messages: EventChanges[] = [];
  client.api.events.changes.subscribe(undefined, {
    onData: (changes) => {
      messages.push(changes);
    },
  });
  // Only what comes after the stream has been opened is told.
  await waitUntil(async () => {
    await insertEvents(on, 'crew.first', 1);
    return messages.length > 0;
  }, SOON);

  await insertEvents(on, 'others', 3);
  await insertEvents(on, 'crew.a', 40);
  const told = (namespace: string): EventChanges['resources'] =>
    messages.flatMap(({ resources }) => resources).filter((one) => one.namespace === namespace);
  await waitUntil(() => told('crew.a').length > 0, SOON);

  expect(told('crew.a')).toEqual([{ face: 'lease', namespace: 'crew.a', name: 'thing' }]);
  expect(messages.at(-1)?.eventCount).toBeGreaterThanOrEqual(40);
  expect([...told('crew.before'), ...told('others')]).toEqual([]);
});

test('events.changes: what is read once it is open, and what it tells then, miss nothing that a transaction had begun before', async () => {
  const { secret } = await on.token('viewer');
  const client = clientOf(on.url, secret);
  const early = new pg.Client({ connectionString: on.databaseUrl });
  await early.connect();
  onTestFinished(() => early.end());
  await early.query('begin');
  await early.query(`
    insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor)
    values ('lease', 'early', 'thing', gen_random_uuid(), 1, 'granted', 'test')`);
  await insertEvents(on, 'late', 1);
  const known = new Set<string>();
  const opened = new Promise<void>((resolve, reject) => {
    client.api.events.changes.subscribe(undefined, {
      onStarted: () => void readNamespaces(known).then(resolve, reject),
      onData: ({ resources }) => {
        for (const { namespace } of resources) known.add(namespace);
      },
    });
  });
  // By then one that does not wait is open.
  for (let count = 0; count < 2; count += 1) await untilStarted(client);

  await early.query('commit');
  await opened;
  await insertEvents(on, 'marker', 1);
  await waitUntil(() => known.has('marker'), SOON);

  expect([...known]).toEqual(expect.arrayContaining(['early', 'late']));
});
