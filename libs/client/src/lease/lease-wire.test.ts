import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { ManualClock } from '../double/index.ts';
import { Ending } from '../signals.ts';
import { createControllerClient } from '../transport/controller-client.ts';
import { OutcomeUnknownError } from '../transport/errors.ts';
import { Reachability } from '../transport/links.ts';
import { createEnvironmentWire, createLeaseWire } from './lease-wire.ts';

const FAILED = {
  outcome: 'failed',
  error: { code: 'request.outcome_unknown', message: 'lost', retryable: true, details: {} },
};

/** Wires to a controller that answers when the test wants it. */
async function setUp() {
  const asked: ServerResponse[] = [];
  const bodies: Promise<unknown>[] = [];
  const server = createServer((request, response) => {
    bodies.push(json(request));
    asked.push(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  const client = createControllerClient({ url, token: 'secret', transport: 'http' });
  onTestFinished(async () => {
    await client.close();
    server.closeAllConnections();
    server.close();
  });
  const clock = new ManualClock();
  const machine = { clock, uuid: () => 'id', random: () => 0.5 };
  const failures = () => new Map<string, unknown>();
  const reach = { clock, transport: 'http', failures, connectMs: 3_000, url } as const;
  const deps = { api: client.api, machine, reachability: new Reachability(reach) };
  return {
    wire: createLeaseWire(deps),
    environments: createEnvironmentWire(deps),
    clock,
    bodies,
    /** The next request, once it has arrived. */
    next: () => waitUntil(() => asked.shift()),
  };
}

/** Answers with one result, and waits until it is read. */
async function answer(response: ServerResponse, result: object): Promise<void> {
  response.setHeader('content-type', 'application/json');
  response.setHeader('connection', 'close');
  response.end(JSON.stringify({ result: { data: { results: [result] } } }));
  await once(response, 'close');
  await setImmediate();
}

/** What nobody has handled: it would end a process. */
function unhandledRejections(): unknown[] {
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  return unhandled;
}

test('a release that fails after its caller has stopped waiting, or after its call was over, ends no process', async () => {
  const { wire, clock, next } = await setUp();
  const unhandled = unhandledRejections();
  const release = (ending: Ending) =>
    wire.release({ leaseId: 'lease', fencingToken: '1', result: 'ok' }, ending);
  const ending = new Ending();
  const first = release(ending);
  const asked = await next();

  ending.end(new Error('enough'));
  await expect(first).rejects.toThrow('enough');
  await answer(asked, FAILED);
  const second = expect(release(new Ending())).rejects.toMatchObject({
    code: 'request.outcome_unknown',
  });
  const askedAgain = await next();
  await clock.advance(6_000);
  await second;
  await answer(askedAgain, FAILED);

  expect(unhandled).toEqual([]);
});

test('an acquire whose outcome is not known fails like a call whose answer was lost', async () => {
  const { wire, next } = await setUp();
  const request = {
    namespace: ['jobs'],
    key: 'k',
    ttlMs: 30_000,
    holder: 'h',
    idempotencyKey: 'i',
  };
  const acquired = expect(wire.acquire(request, 0, new Ending())).rejects.toBeInstanceOf(
    OutcomeUnknownError,
  );

  await answer(await next(), FAILED);

  await acquired;
});

test('a request that waits for an environment says how it stands in its line, and which one was lost before', async () => {
  const { environments, next, bodies } = await setUp();
  const how = { order: 'newest', supersede: 'waiting', again: 'the last key' } as const;
  const named = { namespace: ['shop'], key: 'prod', ttlMs: 1_000, holder: 'ci', action: 'deploy' };
  const request = { ...named, ...how, idempotencyKey: 'key' };
  const acquired = environments.acquire(request, 500, new Ending());
  const response = await next();

  expect(await bodies[0]).toMatchObject({ ...how, environment: ['shop', 'prod'], waitMs: 500 });
  await answer(response, FAILED);
  await acquired;
});
