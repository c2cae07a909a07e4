/**
 * The commands of the model-based test of lines, in any order: each acts on the model and on the real kernel, compares
 * what becomes of it, and then all that is held and all who wait.
 */
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { expect } from 'vitest';
import {
  createGroupGranter,
  firstLeaseId,
  joinLine,
  joinLines,
  leaseIdsFrom,
  leaveLine,
  leaveLines,
  prolongTickets,
  revoke,
  type Supersede,
} from '../../grants/index.ts';
import { downgradeHeld } from '../../grants/renewing.ts';
import { invariant, LeaseError } from '../../kernel/errors.ts';
import { serviceLadder } from '../../kernel/ladder.ts';
import type { GrantRequest } from '../../kernel/lease.ts';
import { type Resource, resourceKey } from '../../kernel/resource.ts';
import { createJoinForEnvironment } from '../../leases/environment-waiting.ts';
import type { FreezeService } from '../../leases/index.ts';
import type { CrashPoints } from '../crash-points.ts';
import { aRequest, BY, type Kernel } from '../kernel-fixture.ts';
import { declarePermits } from '../pool-fixture.ts';
import type {
  Decision,
  LineAsk,
  LineModel,
  ModelHold,
  ModelMode,
  ModelPart,
  ModelTicket,
} from './line-model.ts';

export interface RealLines {
  readonly kernel: Kernel;
  readonly freezes: FreezeService;
  readonly crashes: CrashPoints;
  readonly setClock: (atMs: number) => Promise<void>;
  /** Every run has names of its own, so that one database serves them all. */
  readonly run: string;
  /** All tickets that were ever taken, also those that are gone. */
  readonly tickets: ModelTicket[];
}

export type LineCommand = fc.AsyncCommand<LineModel, RealLines>;

const PRINCIPAL = 'token-a';
const OPERATOR = { principal: 'token-o', actor: 'operator', role: 'operator', namespaces: null };
const TTLS = [1_000, 5_000, 40_000];
/** How long requests for environments wait; no freeze lasts for just as long. */
const WAIT_MS = 60_000;

/** What is asked for: in namespaces with permits, with a total too, shared and alone, together, and environments. */
const PLACES = ['permits', 'total', 'shared', 'together', 'environment'] as const;
/** Or of some of these together. */
const KINDS = [...PLACES, 'mixed'] as const;
type Kind = (typeof KINDS)[number];
/** Two of them want a permit of the same total. */
const MIXED = {
  a: ['shared', 'a'],
  b: ['total', 'a'],
  c: ['together', 'a'],
  d: ['total', 'b'],
} as const;

interface Asked {
  readonly kind: Kind;
  readonly names: readonly (keyof typeof MIXED)[];
  readonly holder: number;
  readonly ttl: number;
  readonly isAlone: boolean;
  readonly action: 'deploy' | 'migrate';
  readonly priority: number;
  readonly isNewestFirst: boolean;
}

const asks: fc.Arbitrary<Asked> = fc.record({
  kind: fc.constantFrom(...KINDS, 'shared' as const),
  names: fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd'), { minLength: 1, maxLength: 3 }),
  holder: fc.nat({ max: 2 }),
  ttl: fc.nat({ max: 2 }),
  isAlone: fc.boolean(),
  action: fc.constantFrom('deploy', 'migrate'),
  priority: fc.constantFrom(0, 0, 1),
  isNewestFirst: fc.constantFrom(false, false, true),
});

function askOf(asked: Asked, { run }: RealLines): LineAsk {
  const { kind, action, isAlone } = asked;
  const isEnvironment = kind === 'environment';
  const places = placesOf(asked);
  const ids = leaseIdsFrom(firstLeaseId(randomUUID()), places.length);
  return {
    parts: places.map(([place, name], index) => ({
      resource: {
        face: isEnvironment ? 'environment' : 'lease',
        namespace: `${run}.${place}`,
        name,
      },
      leaseId: ids[index] ?? '',
      mode: modeOf(place, isAlone),
    })),
    holder: `h${String(asked.holder)}`,
    ttlMs: TTLS[asked.ttl] ?? 1_000,
    action: isEnvironment ? action : '',
    priority: isEnvironment ? asked.priority : 0,
    isNewestFirst: isEnvironment && asked.isNewestFirst,
  };
}

/** Those who want several meet those who want one of them; the others meet at one of two names, or at one. */
function placesOf({ kind, names }: Asked): [place: (typeof PLACES)[number], name: string][] {
  if (kind === 'mixed') return names.map((name) => [...MIXED[name]]);
  if (kind === 'together') return names.map((name) => [kind, name]);
  return [[kind, kind === 'shared' || names[0] === 'a' ? 'a' : 'b']];
}

function modeOf(place: (typeof PLACES)[number], isAlone: boolean): ModelMode {
  if (place === 'permits' || place === 'total') return 'permit';
  return place === 'shared' && !isAlone ? 'shared' : 'alone';
}

/** The requests for the parts; from a place in line the first has the key by which the place is found. */
function requestsOf(ask: LineAsk, isQueued: boolean): [GrantRequest, ...GrantRequest[]] {
  const { holder, ttlMs, action } = ask;
  const [first, ...others] = ask.parts.map(({ resource, leaseId, mode }) =>
    aRequest({
      ...resource,
      ...(mode === 'alone' ? {} : { mode }),
      ...{ leaseId, holder, principal: PRINCIPAL, tag: action, actor: holder, isQueued },
      ladder: serviceLadder(ttlMs),
    }),
  );
  invariant(first !== undefined, 'something is asked for');
  return [isQueued ? { ...first, idempotencyKey: first.leaseId } : first, ...others];
}

/** Sends the requests. @returns the tokens, or why nothing was granted. */
async function send(
  { kernel }: RealLines,
  requests: readonly [GrantRequest, ...GrantRequest[]],
): Promise<readonly bigint[] | Exclude<Decision, 'granted'>> {
  try {
    const [first] = requests;
    if (requests.length > 1) {
      const all = await createGroupGranter(kernel.store).grantAll(requests);
      return all.outcome === 'granted'
        ? all.grants.map(({ fencingToken }) => BigInt(fencingToken))
        : 'refused';
    }
    const one = await kernel.leases.grant(first);
    return one.outcome === 'granted' ? [BigInt(one.grant.fencingToken)] : 'refused';
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error;
    if (error.code === 'environment.frozen') return 'frozen';
    if (error.code === 'request.invalid') return 'invalid';
    throw error;
  }
}

/** Asks, from a place in line or without one; the statement may die on the way. */
async function ask(
  model: LineModel,
  real: RealLines,
  wanted: LineAsk,
  { ticket, crash }: { ticket?: ModelTicket; crash?: CrashAt | undefined } = {},
): Promise<void> {
  const expected = model.decide(wanted, ticket);
  const sent = () => send(real, requestsOf(wanted, ticket !== undefined));
  const answer =
    crash === undefined ? await sent() : await real.crashes.during(crash.at, crash.how, sent);
  if (answer === undefined) return;
  if (typeof answer === 'string') {
    expect(answer).toBe(expected);
    return;
  }
  expect('granted').toBe(expected);
  for (const [place, { resource }] of wanted.parts.entries()) {
    const before = model.largest.get(resourceKey(resource)) ?? -1n;
    expect(answer[place], 'a token is larger than all before').toBeGreaterThan(before);
  }
  model.take(wanted, answer, ticket);
}

interface CrashAt {
  readonly at: number;
  readonly how: 'error' | 'skipped';
}

/** Only asks of one statement: one that dies between two has carried out the first. */
const crashesOfAll = fc.option(
  fc.record({ at: fc.integer({ min: 1, max: 15 }), how: fc.constantFrom('error', 'skipped') }),
  { nil: undefined, freq: 2 },
);

type Has = Pick<LineModel, 'holds' | 'tickets'>;

function command(
  name: string,
  run: (model: LineModel, real: RealLines) => Promise<void>,
  needs: (model: Has) => boolean = () => true,
): LineCommand {
  return {
    check: (model) => needs(model),
    async run(model, real) {
      await run(model, real);
      await expectSame(model, real);
    },
    toString: () => name,
  };
}

const hasHolds = (model: Has): boolean => model.holds.length > 0;
const hasTickets = (model: Has): boolean => model.tickets.length > 0;

/** The one that is `back` old. */
function at<T>(list: readonly T[], back: number): T {
  const one = list[list.length - 1 - (back % list.length)];
  invariant(one !== undefined, 'the command needs one');
  return one;
}

const back = fc.nat({ max: 5 });

const asking = fc.record({ asked: asks, crash: crashesOfAll }).map(({ asked, crash }) =>
  command(`ask ${JSON.stringify({ asked, crash })}`, (model, real) => {
    const wanted = askOf(asked, real);
    return ask(
      model,
      real,
      wanted,
      asked.kind === 'together' && wanted.parts.length > 1 ? { crash } : {},
    );
  }),
);

const joining = asks.map((asked) =>
  command(`join ${JSON.stringify(asked)}`, async (model, real) => {
    const ticket = model.join(askOf(asked, real));
    real.tickets.push(ticket);
    expect(await join(real, ticket.ask)).toBe(true);
  }),
);

const isTogether = ({ resource }: ModelPart): boolean => resource.namespace.endsWith('.together');

/** The first of a line more often than the others. */
const turns = fc.record({ back: fc.nat({ max: 3 }), crash: crashesOfAll }).map((asked) =>
  command(
    `turn ${JSON.stringify(asked)}`,
    (model, real) => {
      const ticket = at(model.tickets.toReversed(), asked.back);
      const { crash } = asked;
      return ask(model, real, ticket.ask, {
        ticket,
        crash: ticket.ask.parts.every(isTogether) ? crash : undefined,
      });
    },
    hasTickets,
  ),
);

/** @returns whether it has a place. */
async function join(
  { kernel: { store } }: RealLines,
  wanted: LineAsk,
  how: { readonly supersede?: Supersede; readonly again?: string } = {},
): Promise<boolean> {
  const [first, ...others] = requestsOf(wanted, true);
  const { leaseId, holder, idempotencyKey = leaseId } = first;
  const asked = { ...first, ticketId: leaseId, waiter: holder, idempotencyKey };
  if (first.face === 'environment') {
    const { priority, isNewestFirst } = wanted;
    const standing = { priority, isNewestFirst, ...how };
    const giveUpAtMs = store.clock.nowMs() + WAIT_MS;
    const ticket = await createJoinForEnvironment(store)(asked, standing, giveUpAtMs);
    return ticket !== undefined;
  }
  if (others.length === 0) return (await joinLine(store.transitions, [asked])).has(leaseId);
  const places = others.map((one) => ({ ...one, ticketId: one.leaseId }));
  return (await joinLines(store.transitions, { ...asked, others: places })) !== undefined;
}

/** A request comes again, whatever has become of it. */
const rejoining = fc.record({ back }).map((asked) =>
  command(`join again ${JSON.stringify(asked)}`, async (model, real) => {
    if (real.tickets.length === 0) return;
    const ticket = at(real.tickets, asked.back);
    expect(await join(real, ticket.ask)).toBe(model.rejoin(ticket));
  }),
);

const leaving = fc.record({ back }).map((asked) =>
  command(
    `leave ${JSON.stringify(asked)}`,
    async (model, { kernel }) => {
      const ticket = at(model.tickets, asked.back);
      const [first, ...others] = ticket.ask.parts.map(({ resource, leaseId }) => ({
        ...{ ...resource, ticketId: leaseId, idempotencyKey: leaseId },
        ...{ principal: PRINCIPAL, answer: { outcome: 'held' } },
      }));
      invariant(first !== undefined, 'a place is in a line');
      const sql = kernel.store.transitions;
      const left =
        others.length === 0
          ? (await leaveLine(sql, [first]))[0]
          : await leaveLines(sql, { ...first, others });
      expect(left).toMatchObject({ hasLeft: true });
      model.leave(ticket);
    },
    hasTickets,
  ),
);

const prolonging = fc.record({ back }).map((asked) =>
  command(
    `prolong ${JSON.stringify(asked)}`,
    async (model, { kernel }) => {
      const ticket = at(model.tickets, asked.back);
      const ids = ticket.ask.parts.map(({ leaseId }) => leaseId);
      expect(await prolongTickets(kernel.store.renewals, ids)).toEqual([]);
      model.prolong(ticket);
    },
    hasTickets,
  ),
);

/** A request for an environment that ends older ones for the same action, unless it dies on the way. */
const superseding = fc
  .record({
    asked: asks.map((asked) => ({ ...asked, kind: 'environment' as const })),
    what: fc.constantFrom('waiting', 'running'),
    crashAt: fc.option(fc.integer({ min: 1, max: 8 }), { nil: undefined, freq: 2 }),
  })
  .map(({ asked, what, crashAt }) =>
    command(`supersede ${JSON.stringify({ asked, what, crashAt })}`, async (model, real) => {
      const wanted = askOf(asked, real);
      const sent = () => join(real, wanted, { supersede: what });
      const hasJoined =
        crashAt === undefined ? await sent() : await real.crashes.during(crashAt, 'error', sent);
      if (hasJoined === undefined) return;
      expect(hasJoined).toBe(true);
      const ticket = model.join(wanted);
      real.tickets.push(ticket);
      if (!model.isFrozen(wanted, WAIT_MS)) model.supersede(ticket, what);
    }),
  );

/** One that was granted an environment from its place in line has lost that, and asks again. */
const askingAgain = fc.record({ back }).map((asked) =>
  command(`ask again ${JSON.stringify(asked)}`, async (model, real) => {
    const lost = real.tickets.flatMap(({ ask }) =>
      model.holds.flatMap((hold) =>
        hold.leaseId === ask.parts[0]?.leaseId && hold.resource.face === 'environment'
          ? { ask, hold }
          : [],
      ),
    );
    if (lost.length === 0) return;
    const { ask, hold } = at(lost, asked.back);
    const parts = [{ resource: hold.resource, leaseId: randomUUID(), mode: 'alone' } as const];
    const wanted = { ...ask, parts };
    const isSuperseded = model.isSupersededSince(hold, ask.priority);
    expect(await join(real, wanted, { again: hold.leaseId })).toBe(!isSuperseded);
    if (!isSuperseded) real.tickets.push(model.join(wanted));
  }),
);

const refOf = ({ leaseId, token }: ModelHold) => ({
  ...{ leaseId, fencingToken: String(token), principal: PRINCIPAL, actor: 'holder' },
});

const renewing = fc.record({ back }).map((asked) =>
  command(
    `renew ${JSON.stringify(asked)}`,
    async (model, { kernel }) => {
      const hold = at(model.holds, asked.back);
      const answer = await kernel.leases.renew(hold.resource.face, refOf(hold));
      expect(answer.outcome).toBe(model.renew(hold) ? 'renewed' : 'refused');
    },
    hasHolds,
  ),
);

const releasing = fc.record({ back }).map((asked) =>
  command(
    `release ${JSON.stringify(asked)}`,
    async (model, { kernel }) => {
      const hold = at(model.holds, asked.back);
      const request = { ...refOf(hold), result: 'ok', detail: null } as const;
      const answer = await kernel.leases.release(hold.resource.face, request);
      expect(answer === 'released').toBe(model.end(hold));
    },
    hasHolds,
  ),
);

const revoking = fc.record({ back }).map((asked) =>
  command(
    `revoke ${JSON.stringify(asked)}`,
    async (model, { kernel }) => {
      const { resource, leaseId } = at(model.holds, asked.back);
      const act = { actor: 'operator', reason: 'because', namespaces: null, abandon: false };
      const revoked = await revoke(kernel.store.general, resource.face, [
        { ...act, leaseId, mode: 'force' },
      ]);
      expect(revoked.has(leaseId)).toBe(model.end(at(model.holds, asked.back)));
    },
    hasHolds,
  ),
);

const downgrading = fc.record({ back }).map((asked) =>
  command(
    `downgrade ${JSON.stringify(asked)}`,
    async (model, { kernel }) => {
      const hold = at(shareable(model), asked.back);
      const answer = await downgradeHeld(kernel.store, refOf(hold));
      expect(answer.outcome).toBe(model.downgrade(hold) ? 'updated' : 'refused');
    },
    (model) => shareable(model).length > 0,
  ),
);

function shareable(model: Has): ModelHold[] {
  return model.holds.filter(({ resource }) => resource.namespace.endsWith('.shared'));
}

/** Fewer or more permits, while they are held. */
const declaring = fc
  .record({
    kind: fc.constantFrom('permits', 'total'),
    perKey: fc.integer({ min: 1, max: 3 }),
    total: fc.integer({ min: 1, max: 4 }),
  })
  .map(({ kind, perKey, total }) =>
    command(`declare ${JSON.stringify({ kind, perKey, total })}`, async (model, real) => {
      const permits = { perKey, total: kind === 'total' ? total : null };
      await declare(model, real, kind, permits);
    }),
  );

export async function declare(
  model: LineModel,
  { kernel, run }: RealLines,
  kind: 'permits' | 'total',
  permits: { readonly perKey: number; readonly total: number | null },
): Promise<void> {
  await declarePermits(kernel, permits, `${run}.${kind}`);
  model.permits.set(`${run}.${kind}`, permits);
}

const freezing = fc
  .record({
    name: fc.constantFrom('a', 'b'),
    action: fc.constantFrom(undefined, 'deploy', 'migrate'),
    ms: fc.constantFrom(700, 7_003, 3_600_007),
  })
  .map((asked) =>
    command(`freeze ${JSON.stringify(asked)}`, async (model, { freezes, run }) => {
      const { name, action, ms } = asked;
      const resource: Resource = { face: 'environment', namespace: `${run}.environment`, name };
      const untilMs = model.nowMs + ms;
      const until = new Date(untilMs).toISOString();
      await freezes.freeze({ ...resource, action, reason: 'audit', until }, OPERATOR, BY);
      model.freezes.push({ key: resourceKey(resource), action, untilMs });
    }),
  );

async function pass(model: LineModel, real: RealLines, ms: number): Promise<void> {
  model.nowMs += ms;
  await real.setClock(model.nowMs);
}

const waiting = fc
  .constantFrom(1, 100, 300, 499, 500, 1_000, 30_000)
  .map((ms) => command(`wait ${String(ms)}`, (model, real) => pass(model, real, ms)));

/** To the very instant of an expiry, and a millisecond to either side. */
const boundaries = fc.record({ back, offsetMs: fc.constantFrom(-1, 0, 1) }).map((asked) =>
  command(
    `until expiry ${JSON.stringify(asked)}`,
    (model, real) => {
      const untilMs = at(model.holds, asked.back).expiresAt + asked.offsetMs - model.nowMs;
      return pass(model, real, Math.max(0, untilMs));
    },
    hasHolds,
  ),
);

/** Every command, weighted by repetition: mostly requests and turns. */
export const LINE_COMMANDS: fc.Arbitrary<LineCommand>[] = [
  ...[asking, asking, asking, asking, joining, joining, turns, turns, turns],
  ...[rejoining, leaving, prolonging, superseding, askingAgain, renewing, releasing, releasing],
  ...[revoking, downgrading, declaring, freezing, waiting, boundaries],
];

/** Compares all that is held in this run and all who wait with the model. */
async function expectSame(model: LineModel, { kernel, run }: RealLines): Promise<void> {
  const sql = kernel.store.general;
  const held = await sql.$queryRaw<Record<string, unknown>[]>`
    select l.lease_id as "leaseId", l.namespace, coalesce(l.pool, l.name) as name, l.holder,
      coalesce(nullif(l.mode, 'exclusive'), 'alone') as mode, l.fencing_token::text as token,
      extract(epoch from l.expires_at)::float8 * 1000 as "expiresAt", l.renewable as "isRenewable"
    from lease l
    where starts_with(l.namespace, ${`${run}.`})
      and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
    order by l.lease_id`;
  const expected = model.holds.filter((hold) => model.isInForce(hold));
  expect(held).toEqual(
    expected
      .map(({ resource: { namespace, name }, leaseId, holder, mode, token, ...rest }) => ({
        ...{ leaseId, namespace, name, holder, mode, token: String(token) },
        ...{ expiresAt: rest.expiresAt, isRenewable: rest.isRenewable },
      }))
      .sort((a, b) => (a.leaseId < b.leaseId ? -1 : 1)),
  );
  const waiters = await sql.$queryRaw<{ ticketId: string; validUntil: number }[]>`
    select w.ticket_id as "ticketId", extract(epoch from w.valid_until)::float8 * 1000 as "validUntil"
    from lease_waiter w where starts_with(w.namespace, ${`${run}.`})
    order by w.ticket_id`;
  expect(waiters).toEqual(
    model.tickets
      .flatMap(({ ask, validUntil }) =>
        ask.parts.map(({ leaseId }) => ({ ticketId: leaseId, validUntil })),
      )
      .sort((a, b) => (a.ticketId < b.ticketId ? -1 : 1)),
  );
}
