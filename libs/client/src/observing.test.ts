import { describe, expect, onTestFinished, test } from 'vitest';
import { createTestLeasehold, settled } from './double/index.ts';
import { createLeasehold } from './index.ts';
import { observe, type ObservedSource, type ObservedState } from './observing.ts';

const LEADER = { namespace: ['jobs'], key: 'leader' };
const state = (holder: string): ObservedState => ({
  holder,
  fencingToken: '1',
  leaseId: 'l',
  metadata: null,
  since: '2030-01-01T00:00:00.000Z',
});

/** An observation, and the source that the test tells it from. */
function setUp() {
  let listener: Parameters<ObservedSource>[1] | undefined;
  const [user, closing] = [new AbortController(), new AbortController()];
  let openCount = 0;
  const source: ObservedSource = (_scope, told) => {
    listener = told;
    openCount += 1;
    return () => {
      openCount -= 1;
    };
  };
  const observation = observe(source, LEADER, { signal: user.signal }, closing.signal);
  return {
    observation,
    user,
    closing,
    tell: (...states: ObservedState[]) => states.forEach((one) => listener?.onState(one)),
    fail: (error: Error) => listener?.onError(error),
    opened: () => openCount,
  };
}

const holderIn = ({ value }: IteratorResult<ObservedState, undefined>) => value?.holder;

describe('an observation', () => {
  test('keeps the newest state for a reader that takes its time, and tells none twice', async () => {
    const { observation, tell } = setUp();
    const first = observation.next();
    tell(null, state('a'), state('b'), state('c'));

    expect(await first).toEqual({ done: false, value: null });
    expect(holderIn(await observation.next())).toBe('c');
    const next = observation.next();
    tell(state('c'), state('c'), state('d'));
    expect(holderIn(await next)).toBe('d');
  });

  test('asks for nothing before it is read, and for nothing after its end', async () => {
    const { observation, opened } = setUp();
    expect(opened()).toBe(0);
    const next = observation.next();
    expect(opened()).toBe(1);

    expect(await observation.return?.()).toEqual({ done: true, value: undefined });

    expect(await next).toEqual({ done: true, value: undefined });
    expect(await observation.next()).toEqual({ done: true, value: undefined });
    expect(opened()).toBe(0);
  });

  test('ends silently with its signal, after the state that is not read yet', async () => {
    const { observation, user, tell, opened } = setUp();
    const first = observation.next();
    tell(state('a'), state('b'));
    user.abort();

    expect(holderIn(await first)).toBe('a');
    expect(holderIn(await observation.next())).toBe('b');
    expect((await observation.next()).done).toBe(true);
    expect(opened()).toBe(0);
    const over = observe(
      () => () => undefined,
      LEADER,
      { signal: AbortSignal.abort() },
      new AbortController().signal,
    );
    expect((await over.next()).done).toBe(true);
  });

  test.each(['fail', 'close'] as const)('throws once what ended it: %s', async (how) => {
    const { observation, fail, closing, opened } = setUp();
    const next = expect(observation.next()).rejects.toThrow('over');
    if (how === 'fail') fail(new Error('over'));
    else closing.abort(new Error('over'));

    await next;
    expect((await observation.next()).done).toBe(true);
    expect(opened()).toBe(0);
  });
});

describe('observe', () => {
  test('of a test Leasehold shows who leads, what it says, and when it is gone', async () => {
    const leasehold = createTestLeasehold();
    onTestFinished(() => leasehold.close());
    const [one, other] = [leasehold.client({ holder: 'one' }), leasehold.client()];
    const states: unknown[] = [];
    const reading = (async () => {
      for await (const leader of other.observe(LEADER)) {
        states.push(leader === null ? null : [leader.holder, leader.metadata]);
      }
    })();
    await settled();
    const lease = await one.defineLease(['jobs']).acquire('leader', { metadata: 'starting' });
    await settled();
    await lease.update({ metadata: 'ready' });
    await settled();
    leasehold.cutOff(one);
    await leasehold.advance(60_000);

    expect(states).toEqual([null, ['one', 'starting'], ['one', 'ready'], null]);
    leasehold.cutOff(other);
    leasehold.heal(one);
    const next = await one.defineLease(['jobs']).acquire('leader');
    await settled();
    expect(states).toHaveLength(4);
    leasehold.heal(other);
    await settled();
    expect(states.slice(4)).toEqual([['one', null]]);
    await next.release();
    const ended = expect(reading).rejects.toMatchObject({ code: 'client.closed' });
    await other.close();
    await ended;
  });

  test('refuses a wrong scope, and a transport that tells nothing', async () => {
    const client = createTestLeasehold().client();
    const wrong = { namespace: 'jobs', key: 'leader' } as unknown as typeof LEADER;
    expect(() => client.observe(wrong)).toThrow(/namespace/u);
    const http = createLeasehold({ url: 'http://127.0.0.1:9', token: 'lh_x', transport: 'http' });
    onTestFinished(() => http.close());
    await expect(http.observe(LEADER).next()).rejects.toMatchObject({ code: 'request.invalid' });
  });
});
