import type { Access } from '@leasehold/api';
import { FAIR_USE_DEFAULTS, type FairUseOverrides, type Role } from '@leasehold/keys-core';
import { createLogger } from '@leasehold/service-kit';
import { createFairUse, type FairUse, type PrincipalUse } from '../fair-use/fair-use.ts';

export function accessOf(role: Role, limits: FairUseOverrides = {}, principal = 'token-a'): Access {
  return { principal, name: 'a token', role, namespaces: null, droneId: null, limits };
}

/** Fair use on a clock that the test moves; `held` is what the database counts. */
export function openUse(held: () => Map<string, number> = () => new Map<string, number>()): {
  fairUse: FairUse;
  use: (limits: FairUseOverrides, role?: Role) => PrincipalUse;
  refusals: string[];
} {
  const refusals: string[] = [];
  const rows = (): Promise<unknown> =>
    Promise.resolve([...held()].map(([principal, count]) => ({ principal, held: count })));
  const fairUse = createFairUse({
    store: { guests: { $queryRaw: rows } as never, clock: { nowMs: () => Date.now() } as never },
    limits: FAIR_USE_DEFAULTS,
    nowMs: () => Date.now(),
    log: createLogger({ name: 'test', level: 'silent' }),
    onRefusal: (limit, role) => refusals.push(`${limit} ${role}`),
  });
  const use = (limits: FairUseOverrides, role: Role = 'client'): PrincipalUse =>
    fairUse.of(accessOf(role, limits));
  return { fairUse, use, refusals };
}
