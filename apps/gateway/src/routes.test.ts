import { getEventListeners } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { FAIR_USE_DEFAULTS } from '@leasehold/keys-core';
import { createBootClock } from '@leasehold/service-kit/boot-clock';
import { waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test, vi } from 'vitest';
import { LinkDown, type SyncInput } from './controller-link.ts';
import { Refusal } from './refusal.ts';
import { BackendAgent, Routes, ROUTES_MAX, SYNC_MS, type Wanted } from './routes.ts';
import { ScriptedController } from './testing/scripted-controller.ts';

const BOUNDS = { heldMax: 100, heldBytesMax: 1_000_000, holdMs: 10_000 };

function openRoutes(bounds: Partial<typeof BOUNDS> = {}) {
  let nowMs = 1_000;
  const link = new ScriptedController();
  const clock = createBootClock(() => nowMs);
  const routes = new Routes({
    clock,
    link,
    gatewayId: 'gateway-1',
    version: '0.0.0',
    bounds: { ...BOUNDS, ...bounds },
    tokens: { revision: undefined, learn: () => Promise.resolve() },
  });
  onTestFinished(() => routes.close('gateway.stopping'));
  const take = (
    name = 'room',
    more: Partial<Wanted & { bytes: number; signal: AbortSignal }> = {},
  ) => {
    const { bytes = 10, signal = new AbortController().signal, ...wanted } = more;
    return routes.take({ namespace: '', name, tag: '', ...wanted }, { bytes, signal });
  };
  /** Whether so many questions were asked; lets the pause pass before the next one. */
  const isAsked = (count: number): boolean => {
    nowMs += 200;
    return link.questions.length >= count;
  };
  return { routes, link, clock, take, isAsked, passTime: (ms: number) => void (nowMs += ms) };
}

/** A use of a route, and why it was ended. */
function userOf(user = 'anna'): {
  user: string;
  place: number;
  ends: string[];
  end(code: string): void;
} {
  const ends: string[] = [];
  return { user, place: 0, ends, end: (code) => void ends.push(code) };
}

const never = new Promise<never>(() => undefined);

test('many requests at once ask once, and later ones do not ask', async () => {
  const { link, take } = openRoutes();
  const found = await Promise.all(Array.from({ length: 25 }, () => take()));
  expect(new Set(found).size).toBe(1);
  await take();
  expect(link.questions).toHaveLength(1);
});

test('validity counts from when the question was sent: an answer that comes after it is not used', async () => {
  const { link, take, passTime, isAsked } = openRoutes();
  link.validForMs = 2_000;
  let tries = 0;
  link.answerRoute = (input) => {
    tries += 1;
    if (tries === 1) passTime(2_500);
    return Promise.resolve(link.routeTo(input));
  };
  const held = take();
  await waitUntil(() => isAsked(2));
  const active = await held;
  expect(tries).toBe(2);
  expect(active.validUntilMs).toBeGreaterThan(1_000 + 2_500);
});

test('what is not held any more leaves nothing with the signal that would have ended it', async () => {
  const { take } = openRoutes();
  const longLived = new AbortController();
  for (const name of ['one', 'two', 'three']) await take(name, { signal: longLived.signal });
  // What Node keeps of signals that follow it.
  const kept = Object.getOwnPropertySymbols(longLived.signal)
    .filter(({ description }) => description === 'kDependantSignals')
    .map((symbol) => Reflect.get(longLived.signal, symbol) as Set<unknown>);
  expect(kept.map((signals) => signals.size).filter((size) => size > 0)).toEqual([]);
  expect(getEventListeners(longLived.signal, 'abort')).toEqual([]);
});

test('the answer counts whose question was sent later, also if it makes the time shorter', async () => {
  const { routes, link, take, passTime } = openRoutes();
  const active = await take();
  const user = userOf();
  active.use(user, { nowMs: () => 0 });
  link.validForMs = 1_000;
  await routes.sync();
  passTime(1_001);
  await waitUntil(() => user.ends.length > 0);
  expect(user.ends).toEqual(['gateway.route_over']);
  expect([...routes.active]).toEqual([]);
});

test('an answer to an earlier question does not bring back a grant that has ended', async () => {
  const { routes, link, take, passTime, isAsked } = openRoutes();
  const active = await take();
  active.isSuspect = true;
  const late = { answer: (): void => undefined };
  const first = link.leaseId;
  link.answerRoute = (input) => {
    const route = link.routeTo(input);
    return new Promise((resolve) => {
      late.answer = () => resolve(route);
    });
  };
  const asked = take();
  await waitUntil(() => link.questions.length === 2);
  passTime(100);
  link.ended.add(first);
  await routes.sync();
  link.answerRoute = (input) => Promise.resolve(link.routeTo(input));
  link.move('127.0.0.1:2');
  late.answer();
  await waitUntil(() => isAsked(3));
  expect((await asked).route.leaseId).toBe(link.leaseId);
});

test('what is held is bounded in count, for each key and in all, and in bytes', async () => {
  const { link, take, routes } = openRoutes({ heldMax: 8, heldBytesMax: 1_000 });
  link.answerRoute = () => never;
  const busy = { code: 'gateway.busy' };
  void Promise.allSettled([take('a'), take('a')]);
  await expect(take('a')).rejects.toMatchObject(busy);
  await expect(take('b', { bytes: 981 })).rejects.toMatchObject(busy);
  void Promise.allSettled(['b', 'c', 'd', 'e', 'f', 'g'].map((name) => take(name)));
  await expect(take('h')).rejects.toMatchObject(busy);
  expect(routes.held).toEqual({ count: 8, bytes: 80 });
});

test('a client that is gone is not held any more', async () => {
  const { link, take, routes } = openRoutes();
  link.answerRoute = () => never;
  const gone = new AbortController();
  const held = take('room', { signal: gone.signal });
  gone.abort(new Error('gone'));
  await expect(held).rejects.toThrow('gone');
  expect(routes.held.count).toBe(0);
});

test('for a client that has left already nothing is asked, so that no failure is left without a reader', async () => {
  const { link, take, routes } = openRoutes();
  link.answerRoute = () => Promise.reject(new LinkDown('down'));
  const gone = AbortSignal.abort(new Error('gone'));
  await expect(take('room', { signal: gone })).rejects.toThrow('gone');
  expect(link.questions).toEqual([]);
  expect(routes.held.count).toBe(0);
});

test('a request is held for no longer than the bound', async () => {
  const { link, take, passTime } = openRoutes({ holdMs: 3_000 });
  link.answerRoute = () => never;
  const held = take();
  passTime(3_001);
  await expect(held).rejects.toMatchObject({ code: 'gateway.wait_over' });
  expect(link.questions[0]?.waitMs).toBe(2_500);
});

test('while no controller answers it is asked again, and then the request is refused', async () => {
  const { link, take, passTime, isAsked } = openRoutes({ holdMs: 3_000 });
  link.answerRoute = () => Promise.reject(new LinkDown('down'));
  const held = take();
  const refused = expect(held).rejects.toMatchObject({ code: 'gateway.cut_off' });
  await waitUntil(() => isAsked(3));
  passTime(3_000);
  await refused;
});

test('a request whose time is over during a question after a failure is refused because no controller answers', async () => {
  const { link, take, passTime, isAsked } = openRoutes({ holdMs: 3_000 });
  link.answerRoute = () =>
    link.questions.length === 1 ? Promise.reject(new LinkDown('down')) : never;
  const held = take();
  await waitUntil(() => isAsked(2));
  passTime(3_000);
  await expect(held).rejects.toMatchObject({ code: 'gateway.cut_off' });
});

test('a request that joins a question goes on after the end of that one, for its own time', async () => {
  const { link, take, passTime, isAsked } = openRoutes({ holdMs: 3_000 });
  const over = new Refusal('gateway.wait_over', { reason: 'backend.not_ready' });
  let end = (): void => undefined;
  link.answerRoute = () =>
    new Promise((_resolve, reject) => {
      end = () => reject(over);
    });
  const refused = expect(take()).rejects.toBe(over);
  passTime(2_500);
  const joined = take();
  end();
  passTime(500);
  await refused;
  link.answerRoute = (input) => Promise.resolve(link.routeTo(input));
  await waitUntil(() => isAsked(2));
  expect((await joined).route.leaseId).toBe(link.leaseId);
});

test('what a controller cannot do now is asked again until the time is over, and refused with its reason', async () => {
  const { link, take, passTime, isAsked } = openRoutes({ holdMs: 3_000 });
  const full = new Refusal('gateway.wait_over', { reason: 'spawn.no_drone' });
  link.answerRoute = () => Promise.reject(full);
  const refused = expect(take()).rejects.toBe(full);
  await waitUntil(() => isAsked(3));
  passTime(3_000);
  await refused;
});

test('what is held when all routes are closed is refused with the reason', async () => {
  const { link, take, routes } = openRoutes();
  link.answerRoute = () => never;
  const held = take();
  routes.close('gateway.stopping');
  await expect(held).rejects.toMatchObject({ code: 'gateway.stopping' });
  expect(routes.held.count).toBe(0);
});

test('a route whose backend may be stopped soon is asked for again before it is used', async () => {
  const { link, take, passTime } = openRoutes();
  link.validForMs = 2_000;
  await take();
  passTime(1_300);
  await take();
  expect(link.questions).toHaveLength(2);
});

test('a call tells who uses a route, and since when nobody does', async () => {
  const { routes, link, clock, take, passTime } = openRoutes();
  const active = await take();
  const releases = [userOf('anna'), userOf('anna'), userOf('ben')].map((user) =>
    active.use(user, clock),
  );
  passTime(10_000);
  await routes.sync();
  expect(link.syncs.at(-1)?.uses).toEqual([
    { leaseId: link.leaseId, connections: 3, users: 2, requests: 3, usedAgoMs: 0 },
  ]);
  for (const release of releases) release();
  passTime(5_000);
  await routes.sync();
  expect(link.syncs.at(-1)?.uses).toEqual([
    { leaseId: link.leaseId, connections: 0, users: 0, requests: 0, usedAgoMs: 5_000 },
  ]);
});

const MANY = { heldMax: 100_000, heldBytesMax: 10_000_000 };

/** Takes one more route than a call has, each with a user. */
async function takeMany({
  link,
  clock,
  take,
}: Pick<ReturnType<typeof openRoutes>, 'link' | 'clock' | 'take'>): Promise<void> {
  const routeTo = link.routeTo.bind(link);
  link.routeTo = ({ key }) => ({ ...routeTo({ key }), leaseId: key.name });
  const found = await Promise.all(
    Array.from({ length: 5_001 }, (_key, at) => take(`k${String(at)}`)),
  );
  for (const active of found) active.use(userOf(), clock);
}

test('each call tells what the gateway has in all, although a call has only a part of its routes', async () => {
  const { routes, link, clock, take } = openRoutes(MANY);
  await takeMany({ link, clock, take });
  await routes.sync();
  const told = link.syncs.map(({ uses, ...rest }) => [uses.length, rest.connections, rest.routes]);
  expect(told).toEqual([
    [5_000, 5_001, 5_001],
    [1, 5_001, 5_001],
  ]);
});

test('two gateways with all the routes that they may know are within the fair use of one token', () => {
  const { callsPerSecond } = FAIR_USE_DEFAULTS.gateway;
  expect(callsPerSecond).toBeGreaterThanOrEqual((2 * ROUTES_MAX * 1_000) / SYNC_MS);
});

test('where a part of the routes is not answered for, the next question begins with it', async () => {
  const { routes, link, clock, take, passTime } = openRoutes(MANY);
  await takeMany({ link, clock, take });
  passTime(1);
  link.beforeSync = () =>
    link.syncs.length === 2 ? Promise.reject(new LinkDown('refused')) : Promise.resolve();
  await routes.sync();
  await routes.sync();
  expect(link.syncs.map(({ uses }) => uses.length)).toEqual([5_000, 1, 5_000, 1]);
  expect(link.syncs[2]?.uses[0]).toEqual(link.syncs[1]?.uses[0]);
});

test('calls that requests ask for are sent after they were asked for, together and with a pause', async () => {
  const { routes, link, passTime } = openRoutes();
  let answer = (): void => undefined;
  link.beforeSync = () =>
    new Promise((resolve) => {
      answer = resolve;
    });
  const earlier = routes.sync();
  const asked = [routes.syncAfresh(), routes.syncAfresh()];
  expect(asked[1]).toBe(asked[0]);
  answer();
  await earlier;
  await waitUntil(() => link.syncs.length === 2);
  const later = routes.syncAfresh();
  answer();
  await Promise.all(asked);
  link.beforeSync = () => Promise.resolve();
  passTime(249);
  await routes.sync();
  expect(link.syncs).toHaveLength(3);
  passTime(1);
  await later;
  expect(link.syncs).toHaveLength(4);
});

test('a route that nobody has used for a minute is not kept valid', async () => {
  const { routes, link, take, passTime } = openRoutes();
  link.validForMs = 1_000_000;
  await take();
  passTime(60_001);
  await routes.sync();
  expect(link.syncs.at(-1)?.uses).toEqual([]);
  expect([...routes.active]).toEqual([]);
});

test('requests that are told to nobody are told again', async () => {
  const { routes, link, clock, take } = openRoutes();
  (await take()).use(userOf(), clock)();
  link.beforeSync = () => Promise.reject(new Error('lost'));
  await routes.sync();
  link.beforeSync = () => Promise.resolve();
  await routes.sync();
  const told = (sync: SyncInput | undefined): number | undefined => sync?.uses[0]?.requests;
  expect(link.syncs.map(told)).toEqual([1, 1]);
});

test('a token of one grant gets no other, whatever is known', async () => {
  const { link, take } = openRoutes({ holdMs: 500 });
  await take();
  const other = '00000000-0000-4000-8000-000000000000';
  const asked: (string | undefined)[] = [];
  link.answerRoute = ({ leaseId }) => {
    asked.push(leaseId);
    return Promise.reject(new LinkDown('not of interest'));
  };
  void take('room', { grant: other }).catch(() => undefined);
  await waitUntil(() => asked.length > 0);
  expect(asked[0]).toBe(other);
});

test.each([
  [undefined, 2_000],
  ['timeout=5', 4_000],
  ['max=100, timeout=30', 29_000],
  ['timeout=3600', 60_000],
])('a connection is kept for less than its backend says it is: %s', (said, keptMs) => {
  const agent = new BackendAgent();
  const socket = new net.Socket();
  agent.heard(said);
  expect([agent.keepSocketAlive(socket), socket.timeout]).toEqual([true, keptMs]);
});

test('a connection that its backend is about to close is not taken again', () => {
  const agent = new BackendAgent();
  agent.heard('timeout=1');
  expect(agent.keepSocketAlive(new net.Socket())).toBe(false);
});

test('where all connections to a backend are in use, nobody waits for one', async () => {
  const active = await openRoutes().take();
  // Connections that are not there yet.
  vi.spyOn(active.agent, 'createConnection').mockImplementation(() => new net.Socket());
  const askTimes = (count: number): void => {
    for (let nth = 0; nth < count; nth += 1) {
      http.get({ agent: active.agent }).on('error', () => undefined);
    }
  };
  onTestFinished(() => active.agent.destroy());
  askTimes(1_023);
  expect(active.hasPlaceFor('ben')).toBe(true);
  askTimes(1);
  expect(active.hasPlaceFor('ben')).toBe(false);
});
