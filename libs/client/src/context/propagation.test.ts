import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createTRPCClient, getUntypedClient, httpLink, type TRPCLink } from '@trpc/client';
import type { AnyRouter } from '@trpc/server';
import { observable } from '@trpc/server/observable';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ManualClock } from '../double/index.ts';
import { LeaseLost } from '../lease/lease.ts';
import { setUpLeases } from '../testing/lease-setup.ts';
import { callErrorOf, leaseholdErrorOf } from '../transport/errors.ts';
import {
  createLeaseFetch,
  leaseHeaders,
  leasePropagationLink,
  receiveRemaining,
  REMAINING_HEADER,
  remainingHeaders,
  remainingOf,
  runReceived,
} from './propagation.ts';
import { currentSignal } from './work-context.ts';

const TTL_MS = 12_000;

interface Service {
  readonly url: string;
  /** Of the requests that came, in order. */
  readonly headers: IncomingHttpHeaders[];
  readonly hangUps: Promise<unknown>[];
}

/** A service that answers at once, or never. */
async function aService({ isSilent = false } = {}): Promise<Service> {
  const headers: IncomingHttpHeaders[] = [];
  const hangUps: Promise<unknown>[] = [];
  const server = createServer((request, response) => {
    headers.push(request.headers);
    hangUps.push(once(response, 'close'));
    if (!isSilent) response.end('{"result":{"data":1}}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`,
    headers,
    hangUps,
  };
}

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );

test('work that returns a thenable is under its lease until that has settled', async () => {
  const clock = new ManualClock();
  let finish: (value: string) => void = () => undefined;
  let signal: AbortSignal | undefined;
  // A query of a builder runs when somebody asks for its result.
  const query = {
    then: (resolve: (value: string) => void) => {
      finish = resolve;
    },
  } as PromiseLike<string>;

  const working = runReceived(receiveRemaining(clock, 1_000), (over) => {
    signal = over;
    return query;
  });
  await Promise.resolve();
  await clock.advance(2_000);

  expect(signal?.aborted).toBe(true);
  finish('done');
  expect(await working).toBe('done');
});

test('work that returns a query of a builder runs it within the context', async () => {
  let signal: AbortSignal | undefined;
  const received = receiveRemaining(new ManualClock(), 1_000);
  const query = {
    then(resolve: (value: string) => void) {
      signal = currentSignal();
      resolve('done');
    },
  } as PromiseLike<string>;

  expect(await runReceived(received, () => query)).toBe('done');
  expect(signal).toBe(received.signal);
});

describe('fetch under a lease', () => {
  test('sends the receiver the remaining time, and never an instant', async () => {
    const { clock, define } = setUpLeases();
    const service = await aService();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    await clock.advance(1_000);

    await lease.run(() => createLeaseFetch()(service.url, { headers: { 'x-own': '1' } }));

    expect(service.headers[0]).toMatchObject({
      [REMAINING_HEADER]: String(lease.remainingMs() - 100),
      'x-own': '1',
    });
  });

  test('is plain fetch outside of work under a lease', async () => {
    const service = await aService();

    await createLeaseFetch()(service.url);

    expect(service.headers[0]).not.toHaveProperty(REMAINING_HEADER);
  });

  test('hangs up when the lease is lost', async () => {
    const { clock, wire, define } = setUpLeases();
    const service = await aService({ isSilent: true });
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    const failure = lease.run(() => failureOf(createLeaseFetch()(service.url)));
    await expect.poll(() => service.hangUps.length).toBe(1);
    wire.weather = 'silent';
    await clock.advance(TTL_MS);

    expect(await failure).toBe(lease.signal.reason);
    await service.hangUps[0];
  });

  test('is not begun when the lease is over already', async () => {
    const { clock, define } = setUpLeases();
    const service = await aService();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    const failure = lease.run(() => {
      clock.jump(2 * TTL_MS);
      return failureOf(createLeaseFetch()(service.url));
    });

    expect(await failure).toBeInstanceOf(LeaseLost);
    expect(service.headers).toEqual([]);
  });
});

/** A client of a service of somebody else's. */
function clientOf(url: string): { readonly work: { query(): Promise<unknown> } } {
  return createTRPCClient<AnyRouter>({
    links: [leasePropagationLink(), httpLink({ url, headers: leaseHeaders })],
  }) as unknown as ReturnType<typeof clientOf>;
}

describe('the link of tRPC', () => {
  test('sends the remaining time, and ends the call with the lease', async () => {
    const { clock, wire, define } = setUpLeases();
    const service = await aService({ isSilent: true });
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    const client = clientOf(service.url);
    const failure = lease.run(() => failureOf(client.work.query()));
    await expect.poll(() => service.headers.length).toBe(1);

    expect(service.headers[0]?.[REMAINING_HEADER]).toBe(String(lease.remainingMs() - 100));
    wire.weather = 'silent';
    await clock.advance(TTL_MS);
    expect(await failure).toMatchObject({ cause: { code: 'lease.lost' } });
    await service.hangUps[0];
  });

  test('tells of a call that ended with the lease, or came after it, that the lease is lost', async () => {
    const { clock, wire, define } = setUpLeases();
    const service = await aService({ isSilent: true });
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    const client = clientOf(service.url);
    const call = () => lease.run(() => failureOf(client.work.query()));
    const underWay = call();
    wire.weather = 'silent';
    await clock.advance(TTL_MS);

    for (const failure of [await underWay, await call()]) {
      expect(leaseholdErrorOf(failure)).toMatchObject({ code: 'lease.lost', retryable: false });
      expect(callErrorOf(failure)).toBe(lease.signal.reason);
    }
  });
});

/** As the link of WebSockets: a call whose signal aborts is complete. */
const completingLink: TRPCLink<AnyRouter> =
  () =>
  ({ op }) =>
    observable((observer) => {
      const complete = (): void => observer.complete();
      op.signal?.addEventListener('abort', complete);
      return () => op.signal?.removeEventListener('abort', complete);
    });

describe('the link of tRPC before one that takes an aborted call for complete', () => {
  async function setUp() {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    const lose = async (): Promise<void> => {
      wire.weather = 'silent';
      await clock.advance(TTL_MS);
    };
    const links = [leasePropagationLink(), completingLink];
    return { lease, lose, client: getUntypedClient(createTRPCClient<AnyRouter>({ links })) };
  }

  test.each([false, true])(
    'ends a mutation with how the lease was lost; with a signal of its own: %s',
    async (hasSignal) => {
      const { lease, lose, client } = await setUp();
      const options = hasSignal ? { signal: new AbortController().signal } : {};
      const failure = lease.run(() => failureOf(client.mutation('work', {}, options)));

      await lose();

      expect(callErrorOf(await failure)).toBe(lease.signal.reason);
    },
  );

  test('ends a subscription with how the lease was lost', async () => {
    const { lease, lose, client } = await setUp();
    const ends: unknown[] = [];
    lease.run(() =>
      client.subscription(
        'work',
        {},
        {
          onError: (error) => ends.push(callErrorOf(error)),
          onComplete: () => ends.push('complete'),
        },
      ),
    );

    await lose();

    expect(ends).toEqual([lease.signal.reason]);
  });

  test('leaves the end by a signal of the caller to that link', async () => {
    const { lease, client } = await setUp();
    const ends: unknown[] = [];
    const caller = new AbortController();
    const onComplete = (): void => void ends.push('complete');
    const onError = (error: unknown): void => void ends.push(error);
    const listener = { onComplete, onError, signal: caller.signal };
    lease.run(() => client.subscription('work', {}, listener));

    caller.abort();

    expect(ends).toEqual(['complete']);
  });
});

describe('a service that is called', () => {
  test('stops by its own clock when the time is over', async () => {
    const clock = new ManualClock();
    const received = receiveRemaining(clock, 1_000);
    await clock.advance(950);
    expect(received.signal.aborted).toBe(false);

    await clock.advance(50);

    expect(received.signal.reason).toBeInstanceOf(LeaseLost);
    expect(clock.waitingCount).toBe(0);
  });

  test('stops at once when the connection is closed', () => {
    const clock = new ManualClock();
    const request = new AbortController();
    const received = receiveRemaining(clock, 60_000, request.signal);

    request.abort();

    expect(received.signal.reason).toMatchObject({ code: 'lease.lost', reason: 'unreachable' });
  });

  test('passes on the time that is left to the next service, and that one to a third', async () => {
    const clocks = [new ManualClock(0), new ManualClock(5_000_000)] as const;
    const atB = receiveRemaining(clocks[0], 10_000);
    await clocks[0].advance(2_000);
    const headersToC = atB.run(() => remainingHeaders());
    const atC = receiveRemaining(clocks[1], remainingOf(headersToC));
    await clocks[1].advance(3_000);

    expect(headersToC).toEqual({ [REMAINING_HEADER]: '8000' });
    expect(atC.run(() => remainingHeaders())).toEqual({ [REMAINING_HEADER]: '5000' });
  });

  test('loses the leases that it acquired within the call when the call ends', async () => {
    const { clock, define } = setUpLeases();
    const received = receiveRemaining(clock, 1_000);
    const inner = await received.run(() => define().acquire('inner'));

    await clock.advance(1_000);

    expect(inner.signal.reason).toBe(received.signal.reason);
  });

  test('leaves no timer and no context behind when it is done', async () => {
    const clock = new ManualClock();
    const request = new AbortController();

    const signal = await runReceived(receiveRemaining(clock, 1_000, request.signal), () =>
      Promise.resolve(currentSignal()),
    );
    request.abort();

    expect(clock.waitingCount).toBe(0);
    expect(signal?.aborted).toBe(false);
    expect(currentSignal()).toBeUndefined();
  });

  test('does not limit what it has left to run on, once it is disposed of', async () => {
    const { clock, define } = setUpLeases();
    const received = receiveRemaining(clock, 1_000);
    let isOver = (): void => undefined;
    const over = new Promise<void>((resolve) => {
      isOver = resolve;
    });
    const left = received.run(async () => {
      await over;
      const lease = await define({ ttlMs: TTL_MS }).acquire('k');
      return { headers: remainingHeaders(), isHeld: lease.isHeld };
    });

    received[Symbol.dispose]();
    await clock.advance(2_000);
    isOver();

    expect(await left).toEqual({ headers: {}, isHeld: true });
  });

  test('that was told to stop stays told so, although it is disposed of', async () => {
    const clock = new ManualClock();
    const received = receiveRemaining(clock, 1_000);
    await clock.advance(1_000);

    received[Symbol.dispose]();

    expect(received.run(() => remainingHeaders())).toEqual({ [REMAINING_HEADER]: '0' });
  });

  test.each([
    [{ 'Leasehold-Remaining-Ms': '250' }, 250],
    [new Headers({ [REMAINING_HEADER]: '250' }), 250],
    [{ [REMAINING_HEADER]: ['250'] }, 250],
    [{ [REMAINING_HEADER]: '1e99' }, 86_400_000],
    [{ [REMAINING_HEADER]: '-5' }, 0],
    [{ [REMAINING_HEADER]: 'soon' }, 0],
    [{ [REMAINING_HEADER]: '' }, 0],
    [new Headers({ [REMAINING_HEADER]: '' }), 0],
    [{}, undefined],
  ])('reads %j as %s', (headers, remainingMs) => {
    expect(remainingOf(headers)).toBe(remainingMs);
  });
});
