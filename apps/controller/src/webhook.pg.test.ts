import { createHmac } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { writeAudit } from '@leasehold/keys-core/access';
import { waitUntil } from '@leasehold/testing';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import {
  shareTestController,
  startTestController,
  type TestController,
} from './testing/test-controller.ts';
import { createWebhook, type WebhookConfig } from './webhook.ts';

const SECRET = 'a secret of the webhook of these tests';

/** It has no webhook by itself. */
let on: TestController;

shareTestController((shared) => {
  on = shared;
});

/** So that the webhook of each test begins after the entries of the tests before it. */
beforeEach(async () => {
  await on.controller.store.general.$executeRaw`delete from webhook`;
});

interface Received {
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

/** An address that takes messages, and how it answers. */
async function receiver(answer: (response: ServerResponse, nth: number) => void) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    request.on('end', () => {
      received.push({ headers: request.headers, text });
      answer(response, received.length);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    received,
    url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/hook`,
  };
}

const configOf = (url: string, change: Partial<WebhookConfig> = {}): WebhookConfig => ({
  url,
  format: 'json',
  secret: SECRET,
  actions: ['tokens.revoke'],
  ...change,
});

/**
 * A webhook that has begun, whose rounds the test carries out. Of what needs attention it is told of keys that fail:
 * transactions of other tests, in other databases of the cluster, may make events late.
 */
async function open(url: string, change: Partial<WebhookConfig> = {}) {
  const { stats } = await on.client('viewer');
  const outcomes: string[] = [];
  const webhook = createWebhook({
    store: on.controller.store,
    datacenter: 'local',
    config: configOf(url, change),
    stats: {
      async overview(input) {
        const { health, ...rest } = await stats.overview.query(input);
        const concerns = health.concerns.filter(({ kind }) => kind === 'crash_loops');
        return { ...rest, health: { ...health, concerns } };
      },
    },
    log: { warn: () => undefined },
    onOutcome: (outcome) => outcomes.push(outcome),
  });
  const round = (): Promise<void> => webhook.runOnce(new AbortController().signal);
  await round();
  return { round, outcomes, webhook, service: webhook.service };
}

const ENTRY = { actor: 'ann', role: 'admin', resource: 'token:t1' } as const;

/** An entry that is old enough to be sent. */
async function act(action: 'tokens.revoke' | 'tokens.create', reason = 'lost'): Promise<void> {
  const { general } = on.controller.store;
  await writeAudit(general, { ...ENTRY, action, reason });
  await general.$executeRaw`update audit set at = at - interval '10 seconds'`;
}

const bodyOf = ({ text }: Received): Record<string, unknown> =>
  JSON.parse(text) as Record<string, unknown>;

test('chosen entries of the audit are sent, signed, and others are not', async () => {
  const { url, received } = await receiver((response) => response.end());
  const { round, outcomes } = await open(url);

  await act('tokens.create');
  await act('tokens.revoke');
  await round();
  await round();

  expect(outcomes).toEqual(['sent']);
  const [message] = received as [Received];
  const {
    'webhook-id': id,
    'webhook-timestamp': at,
    'webhook-signature': signature,
  } = message.headers;
  const content = `${String(id)}.${String(at)}.${message.text}`;
  const expected = createHmac('sha256', SECRET).update(content).digest('base64');
  expect(signature).toBe(`v1,${expected}`);
  expect(bodyOf(message)).toMatchObject({
    type: 'audit',
    datacenter: 'local',
    text: 'ann: tokens.revoke of token:t1: "lost"',
    data: { action: 'tokens.revoke', actor: 'ann' },
  });
});

/** Two entries, the older one with the smaller id, and when they say that they were written, in seconds from now. */
async function actTwice([older, newer]: readonly [number, number]) {
  const { general } = on.controller.store;
  await act('tokens.revoke', 'older');
  await act('tokens.revoke', 'newer');
  await general.$executeRaw`
    update audit set at = clock_timestamp()
      + case reason when 'older' then ${older}::int else ${newer}::int end * interval '1 second'`;
}

const reasonsOf = (received: readonly Received[]): unknown[] =>
  received.map((one) => (bodyOf(one)['data'] as { reason: unknown }).reason);

test('an entry of the audit that may not be settled is not passed over for an older time of the next one', async () => {
  const { url, received } = await receiver((response) => response.end());
  const { round } = await open(url);

  await actTwice([3, -10]);
  await round();
  expect(received).toEqual([]);
  await on.controller.store.general.$executeRaw`update audit set at = at - interval '20 seconds'`;
  await round();

  expect(reasonsOf(received)).toEqual(['older', 'newer']);
});

test('an entry of the audit whose commit takes long is not passed over for the next one', async () => {
  const { url, received } = await receiver((response) => response.end());
  const { round } = await open(url);
  const { general } = on.controller.store;
  const turn = new EventEmitter();
  const written = once(turn, 'written');
  const slow = general.$transaction(async (tx) => {
    await writeAudit(tx, { ...ENTRY, action: 'tokens.revoke', reason: 'older' });
    const committed = once(turn, 'commit');
    turn.emit('written');
    await committed;
  });
  onTestFinished(() => void turn.emit('commit'));
  await written;
  await act('tokens.revoke', 'newer');
  // By its age long settled, and younger than the transaction.
  await general.$executeRaw`update audit set at = clock_timestamp() + interval '10 seconds'`;

  await round();
  expect(received).toEqual([]);
  turn.emit('commit');
  await slow;
  await general.$executeRaw`update audit set at = at - interval '20 seconds'`;
  await round();

  expect(reasonsOf(received)).toEqual(['older', 'newer']);
});

test('an entry of the audit from before the clock stepped back is sent, and does not wait for the clock', async () => {
  const { url, received } = await receiver((response) => response.end());
  const { round } = await open(url);

  await actTwice([3_600, -10]);
  await round();

  expect(reasonsOf(received)).toEqual(['older', 'newer']);
});

test('a message that fails is sent again with the same id when its time has come, and its failure is shown', async () => {
  const { url, received } = await receiver((response, nth) => {
    response.statusCode = nth === 1 ? 500 : 204;
    response.end();
  });
  const { round, service } = await open(url);
  await act('tokens.revoke');

  await round();
  await round();
  expect(received).toHaveLength(1);
  expect(await service.get()).toMatchObject({
    tries: 1,
    lastError: expect.stringMatching(/^audit_\d+: it answered 500$/u) as string,
    sentAt: null,
  });
  await on.controller.store.general.$executeRaw`update webhook set next_try_at = null`;
  await round();

  expect(received).toHaveLength(2);
  expect(received[1]?.headers['webhook-id']).toBe(received[0]?.headers['webhook-id']);
  expect(await service.get()).toMatchObject({ tries: 0, lastError: null });
  expect((await service.get())?.sentAt).not.toBeNull();
});

test('a message that fails again and again is dropped, and the next one is sent', async () => {
  const { url, received } = await receiver((response, nth) => {
    response.statusCode = nth === 1 ? 400 : 200;
    response.end();
  });
  const { round, outcomes } = await open(url);
  const { general } = on.controller.store;
  await act('tokens.revoke');
  await act('tokens.revoke');
  await general.$executeRaw`update webhook set tries = 11`;

  await round();
  await general.$executeRaw`update webhook set next_try_at = null`;
  await round();

  expect(outcomes).toEqual(['dropped', 'sent']);
  expect(received[1]?.headers['webhook-id']).not.toBe(received[0]?.headers['webhook-id']);
});

type Overview = Awaited<ReturnType<Parameters<typeof createWebhook>[0]['stats']['overview']>>;
type Concerns = Overview['health']['concerns'];

/** Controllers whose webhooks are told what needs attention. */
async function toldOf(url: string) {
  const { stats } = await on.client('viewer');
  const overview = await stats.overview.query({ windowMinutes: 5 });
  const outcomes: string[] = [];
  /** A controller's round, which waits before it judges; the same concerns are from the same overview. */
  const openController = async (wait: () => Promise<void> = () => Promise.resolve()) => {
    let [concerns, count]: [Concerns, number] = [[], 0];
    const webhook = createWebhook({
      store: on.controller.store,
      datacenter: 'local',
      config: configOf(url),
      stats: {
        overview: async () => {
          await wait();
          return {
            ...overview,
            countedAt: String(count),
            health: { ...overview.health, concerns },
          };
        },
      },
      log: { warn: () => undefined },
      onOutcome: (outcome) => outcomes.push(outcome),
    });
    const round = (present: Concerns): Promise<void> => {
      if (present !== concerns) count += 1;
      concerns = present;
      return webhook.runOnce(new AbortController().signal);
    };
    await round([]);
    return round;
  };
  const retryNow = () =>
    on.controller.store.general.$executeRaw`update webhook set next_try_at = null`;
  return { outcomes, retryNow, openController, round: await openController() };
}

const CONCERN = { kind: 'drone_lost', tone: 'warn', since: null, face: null, count: 1 } as const;

const typesOf = (received: readonly Received[]): unknown[] =>
  received.map((one) => bodyOf(one)['type']);
const idsOf = (received: readonly Received[]): unknown[] =>
  received.map(({ headers }) => headers['webhook-id']);

test('a message has the tries that it has failed, whether others come before it, fail or arrive', async () => {
  const { url, received } = await receiver((response, nth) => {
    response.statusCode = nth === 2 ? 200 : 500;
    response.end();
  });
  const { round, retryNow, outcomes } = await toldOf(url);
  await act('tokens.revoke');
  await on.controller.store.general.$executeRaw`update webhook set tries = 11`;

  await round([{ ...CONCERN, droneId: 'd1' }]);
  await retryNow();
  await round([{ ...CONCERN, droneId: 'd1' }]);

  expect(outcomes).toEqual(['failed', 'sent', 'dropped']);
  expect(typesOf(received)).toEqual(['alarm.began', 'alarm.began', 'audit']);
});

test('a message that comes again has the same id, whatever has arrived in between', async () => {
  const { url, received } = await receiver((response, nth) => {
    response.statusCode = nth === 2 ? 500 : 200;
    response.end();
  });
  const { round, retryNow } = await toldOf(url);

  await round([{ ...CONCERN, droneId: 'd1' }]);
  await round([]);
  await retryNow();
  await round([{ ...CONCERN, droneId: 'd2' }]);

  expect(typesOf(received)).toEqual(['alarm.began', 'alarm.ended', 'alarm.began', 'alarm.ended']);
  const [began, ended, other, again] = idsOf(received);
  expect(again).toBe(ended);
  expect(new Set([began, ended, other]).size).toBe(3);
});

/** Answers the first message when the test wants it. */
async function slowReceiver() {
  let first: ServerResponse | undefined;
  const { url, received } = await receiver((response, nth) => {
    if (nth === 1) first = response;
    else response.end();
  });
  return { url, received, answerFirst: () => first?.end() };
}

test('a message is sent by one controller, while others do the same in a hold-off', async () => {
  const { url, received, answerFirst } = await slowReceiver();
  const { round, openController } = await toldOf(url);
  const otherRound = await openController();
  const concerns = [{ ...CONCERN, droneId: 'd1' }];
  await act('tokens.revoke');

  const sending = round(concerns);
  await waitUntil(() => received[0]);
  await otherRound(concerns);
  expect(received).toHaveLength(1);
  answerFirst();
  await sending;
  await otherRound(concerns);

  expect(typesOf(received)).toEqual(['alarm.began', 'audit']);
});

test('of controllers that come to the same message at once, one sends it', async () => {
  const { url, received, answerFirst } = await slowReceiver();
  const { openController } = await toldOf(url);
  const gate = { count: 0, open: (): void => undefined, isOpen: Promise.resolve() };
  const both = (): Promise<void> => {
    gate.count += 1;
    if (gate.count === 2) gate.open();
    return gate.isOpen;
  };
  const rounds = [await openController(both), await openController(both)];
  await act('tokens.revoke');

  gate.count = 0;
  gate.isOpen = new Promise((resolve) => {
    gate.open = resolve;
  });
  const running = rounds.map((round) => round([]));
  await waitUntil(() => received[0]);
  await Promise.race(running);
  answerFirst();
  await Promise.all(running);

  expect(typesOf(received)).toEqual(['audit']);
});

test('the failures of an end are not counted any more when the alarm is on again', async () => {
  const { url, received } = await receiver((response, nth) => {
    response.statusCode = nth === 2 ? 500 : 200;
    response.end();
  });
  const { round, retryNow } = await toldOf(url);
  const concerns = [{ ...CONCERN, droneId: 'd1' }];

  await round(concerns);
  await round([]);
  await retryNow();
  await round([...concerns]);
  const [row] = await on.controller.store.general.$queryRaw<{ alarms: object }[]>`
    select alarms from webhook`;
  await round([]);

  expect(row?.alarms).toMatchObject({ 'drone_lost:d1': { isTold: true, message: null } });
  expect(typesOf(received)).toEqual(['alarm.began', 'alarm.ended', 'alarm.ended']);
  const [, failed, ended] = idsOf(received);
  expect(ended).not.toBe(failed);
});

test('a controller does not judge by an overview from before the alarms that another one has told', async () => {
  const { url, received } = await receiver((response) => response.end());
  const { round, openController } = await toldOf(url);
  const otherRound = await openController();
  const before: Concerns = [];
  const during = [{ ...CONCERN, droneId: 'd1' }];

  await otherRound(before);
  await round(during);
  await otherRound(before);
  await otherRound(before);
  expect(typesOf(received)).toEqual(['alarm.began']);
  await otherRound([]);
  await round(during);
  await round(during);

  expect(typesOf(received)).toEqual(['alarm.began', 'alarm.ended']);
});

test('entries of the audit are sent when what needs attention cannot be read, and the round fails', async () => {
  const { url, received } = await receiver((response) => response.end());
  const webhook = createWebhook({
    store: on.controller.store,
    datacenter: 'local',
    config: configOf(url),
    stats: { overview: () => Promise.reject(new Error('too slow')) },
    log: { warn: () => undefined },
    onOutcome: () => undefined,
  });
  const round = () => webhook.runOnce(new AbortController().signal);

  await expect(round()).rejects.toThrow('too slow');
  await act('tokens.revoke');
  await expect(round()).rejects.toThrow('too slow');

  expect(typesOf(received)).toEqual(['audit']);
});

test('drones that become too many to be named are not over, and are named when they are few again', async () => {
  const { url, received } = await receiver((response) => response.end());
  const { round } = await toldOf(url);
  const named = ['d1', 'd2', 'd3'].map((droneId) => ({ ...CONCERN, droneId }));
  const group = [{ ...CONCERN, count: 4, droneId: null }];
  const toldWith = async (present: Concerns): Promise<unknown[]> => {
    const before = received.length;
    // What is only passed over ends a round.
    await round(present);
    await round(present);
    return typesOf(received.slice(before));
  };

  expect(await toldWith(named)).toEqual(Array(3).fill('alarm.began'));
  expect(await toldWith(group)).toEqual(['alarm.began']);
  expect(await toldWith(named)).toEqual([]);
  expect(await toldWith(group)).toEqual(['alarm.began']);
  expect(await toldWith([])).toEqual(Array(4).fill('alarm.ended'));
});

test('alarms are told once when they begin and once when they end', async () => {
  const { url, received } = await receiver((response) => response.end());
  const { round } = await open(url, { format: 'slack', secret: null });
  const { general } = on.controller.store;
  /** The overview is kept for some seconds. */
  const roundsUntil = (count: number): Promise<unknown> =>
    waitUntil(async () => {
      await round();
      return received[count - 1];
    });

  onTestFinished(async () => {
    await general.$executeRaw`delete from key_failure`;
  });
  await general.$executeRaw`
    insert into key_failure (namespace, name, failures, since, failed_at, backend_id, start_at)
    values ('', 'room', 3, clock_timestamp(), clock_timestamp(), 'b1', clock_timestamp())`;
  await roundsUntil(1);
  await round();
  await general.$executeRaw`delete from key_failure`;
  await roundsUntil(2);
  await round();

  const text = 'The backends of a key fail one after another.';
  expect(received.map(bodyOf)).toEqual([
    { text: `Leasehold (local): ${text}` },
    { text: `Leasehold (local): Over: ${text}` },
  ]);
  const ids = received.map(({ headers }) => headers['webhook-id']);
  // What is signed has dots between its parts.
  expect(ids.join('')).not.toContain('.');
  expect(new Set(ids).size).toBe(2);
  expect(received[0]?.headers['webhook-signature']).toBeUndefined();
});

test('a test is sent at once, and its failure is told', async () => {
  const { url, received } = await receiver((response, nth) => {
    if (nth === 1) response.end();
    else response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end();
  });
  const configured = await startTestController({ webhook: configOf(url) });
  const admin = await configured.client('admin');

  expect(await admin.webhook.test.mutate()).toEqual({ outcome: 'sent' });
  expect(bodyOf(received[0] as Received)).toMatchObject({ type: 'test' });
  await expect(admin.webhook.test.mutate()).rejects.toMatchObject({
    data: { leaseholdCode: 'webhook.failed' },
  });
  const view = await admin.webhook.get.query();
  expect(view?.origin).toBe(new URL(url).origin);
  expect(JSON.stringify(view)).not.toContain('/hook');
});

test('without a webhook there is nothing to show and nothing to test', async () => {
  const admin = await on.client('admin');

  expect(await admin.webhook.get.query()).toBeNull();
  await expect(admin.webhook.test.mutate()).rejects.toMatchObject({
    data: { leaseholdCode: 'webhook.not_configured' },
  });
});

test('a round that has sent as many messages as one may reports that there is more', async () => {
  const { url, received } = await receiver((response) => response.end());
  const { webhook } = await open(url);
  for (let nth = 0; nth < 51; nth += 1) await act('tokens.revoke');
  let moreCount = 0;
  const round = () => webhook.runOnce(new AbortController().signal, () => (moreCount += 1));

  await round();
  expect([received.length, moreCount]).toEqual([50, 1]);
  await round();
  expect([received.length, moreCount]).toEqual([51, 1]);
});

test('what callers write makes neither a link nor a mention in Slack', async () => {
  const { url, received } = await receiver((response) => response.end());
  const { round } = await open(url, { format: 'slack', secret: null });

  await act('tokens.revoke', '<!channel> <https://evil.example|sign in> & more');
  await round();

  const text =
    'ann: tokens.revoke of token:t1: "&lt;!channel&gt; &lt;https://evil.example|sign in&gt; &amp; more"';
  expect(received.map(bodyOf)).toEqual([{ text: `Leasehold (local): ${text}` }]);
});

test('a controller that stops does not wait for a receiver that is slow, and counts no failure', async () => {
  const { url, received } = await receiver(() => undefined);
  const { webhook, service, outcomes } = await open(url);
  await act('tokens.revoke');
  const stopping = new AbortController();

  const running = webhook.runOnce(stopping.signal);
  await waitUntil(() => received[0]);
  stopping.abort();
  await running;

  expect(await service.get()).toMatchObject({ tries: 0, lastError: null });
  expect(outcomes).toEqual([]);
});
