import type { Caller } from '../kernel/face-types.ts';
import type { Recurrence } from '../kernel/freeze.ts';
import {
  createFreezeService,
  type FreezeInput,
  type FreezeService,
  type FreezeView,
} from '../leases/index.ts';
import type { AcquireAnswer, AcquireInput } from '../leases/lease-types.ts';
import { BY } from './kernel-fixture.ts';
import { acquire, type Leases, openLeases } from './lease-fixture.ts';

export const OPERATOR: Caller = {
  principal: 'token-o',
  actor: 'olga@example.com',
  role: 'operator',
  namespaces: null,
};
export const PROD = { namespace: 'team.app', name: 'prod' };
export const HOUR_MS = 60 * 60 * 1_000;

/** A controller's environments, and their freezes. */
export interface Frozen extends Leases {
  readonly freezes: FreezeService;
}

/** A controller's environments; on the named database, a second controller. */
export async function openEnvironments(databaseUrl?: string): Promise<Frozen> {
  const leases = await openLeases(databaseUrl === undefined ? {} : { databaseUrl }, 'environment');
  return { ...leases, freezes: createFreezeService(leases.store) };
}

/** Asks for {@link PROD}, to deploy there, without waiting. */
export function deploy(
  at: Leases,
  change: Partial<AcquireInput> = {},
  caller?: Caller,
): Promise<AcquireAnswer> {
  return acquire(
    at,
    { ...PROD, action: 'deploy', ...change },
    caller === undefined ? {} : { caller },
  );
}

/** The instant this long from now, by this machine's clock, which is the database's. */
export function inMs(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}

/** Freezes {@link PROD} for an hour. */
export async function frozen(at: Frozen, change: Partial<FreezeInput> = {}): Promise<FreezeView> {
  const input = { ...PROD, reason: 'the audit is on', until: inMs(HOUR_MS), ...change };
  const { freeze } = await at.freezes.freeze(input, OPERATOR, BY);
  return freeze;
}

/** As if the freeze had been made so long ago that its stored window is over, and nobody had asked since. */
export async function neglected(
  at: Frozen,
  recurrence: FreezeInput['recurrence'],
): Promise<string> {
  const { freezeId } = await frozen(at, { until: undefined, recurrence });
  await at.store.general.$queryRaw`
    update environment_freeze
    set window_from = clock_timestamp() - interval '20 days',
        window_until = clock_timestamp() - interval '18 days'
    where freeze_id = ${freezeId}::uuid`;
  return freezeId;
}

/** A window of an hour that began half an hour ago, or that begins in an hour, every day in UTC. */
export function daily(beginsInMinutes: number): Recurrence {
  const begin = new Date(Date.now() + beginsInMinutes * 60_000);
  const schedule = `${String(begin.getUTCMinutes())} ${String(begin.getUTCHours())} * * *`;
  return { schedule, durationMs: HOUR_MS, zone: 'UTC' };
}
