/** Acquires of several leases together. */
import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import { invariant } from '../kernel/errors.ts';
import {
  type AcquireAllAnswer,
  type AcquireAllInput,
  createLeasesTogether,
  type LeasesTogether,
} from '../leases/acquiring-all.ts';
import type { CallerLife, GrantedLease } from '../leases/lease-types.ts';
import {
  type acquire,
  acquired,
  ALIVE,
  type Leases,
  lineOf,
  released,
  SERVICE,
} from './lease-fixture.ts';

export const NAMESPACE = 'accounts';

type Change = Partial<Omit<AcquireAllInput, 'scopes'>>;

/** Of each controller. */
const servicesOf = new WeakMap<Leases['store'], LeasesTogether>();

export function serviceOf({ store }: Leases): LeasesTogether {
  const service = servicesOf.get(store) ?? createLeasesTogether({ store });
  servicesOf.set(store, service);
  return service;
}

type Scope = AcquireAllInput['scopes'][number];

export const permit = (namespace: string, name: string): Scope => ({
  namespace,
  name,
  mode: 'permit',
});
export const shared = (name: string): Scope => ({ namespace: NAMESPACE, name, mode: 'shared' });

/** Asks for the leases with these names, for a minute, without waiting, unless `change` says otherwise. */
export function acquireAll(
  at: Leases,
  scopes: readonly (string | Scope)[],
  change: Change = {},
  life: CallerLife = ALIVE,
): Promise<AcquireAllAnswer> {
  return serviceOf(at).acquireAll(
    {
      scopes: scopes.map((one) =>
        typeof one === 'string' ? { namespace: NAMESPACE, name: one } : one,
      ),
      ttlMs: 60_000,
      waitMs: 0,
      holder: 'alice',
      localTimeMs: 1_000_000,
      idempotencyKey: randomUUID(),
      ...change,
    },
    SERVICE,
    life,
  );
}

/** The leases, or the test fails. */
export async function allOf(answer: Promise<AcquireAllAnswer>): Promise<readonly GrantedLease[]> {
  const found = await answer;
  invariant(found.outcome === 'granted', `the test expected grants: ${JSON.stringify(found)}`);
  return found.leases;
}

/** Asks for the leases, and is in the line of each when this resolves. */
export async function inLines(
  at: Leases,
  scopes: readonly (string | Scope)[],
  change: Change & { readonly holder: string },
  life?: CallerLife,
): Promise<{ answer: Promise<AcquireAllAnswer> }> {
  const answer = acquireAll(at, scopes, { waitMs: 60_000, ...change }, life);
  answer.catch(() => undefined);
  for (const name of scopes.map((one) => (typeof one === 'string' ? one : one.name))) {
    await waitUntil(async () => (await lineOf(at, name)).includes(change.holder));
  }
  return { answer };
}

/** One lease of the namespace. */
export function one(at: Leases, name: string, change: Parameters<typeof acquire>[1] = {}) {
  return acquired(at, { namespace: NAMESPACE, name, ...change });
}

export async function releasedAll(at: Leases, leases: readonly GrantedLease[]): Promise<string[]> {
  return Promise.all(leases.map((lease) => released(at, lease)));
}
