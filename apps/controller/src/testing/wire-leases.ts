import { randomUUID } from 'node:crypto';
import { invariant } from '@leasehold/keys-core';
import type { TestController } from './test-controller.ts';
import { mutate } from './wire.ts';

/** A lease as the wire has it. */
export interface WireLease {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly namespace: string[];
  readonly key: string;
  readonly deadlines: { readonly renewAtMs: number; readonly loseAtMs: number };
}

/** What is requested when a test does not care: a key of its own, for half a minute. */
export function wanted(change: object = {}): Record<string, unknown> {
  return {
    namespace: ['test'],
    key: randomUUID(),
    ttlMs: 30_000,
    holder: 'alice',
    localTimeMs: 1_000_000,
    ...change,
  };
}

/** Acquires over HTTP, or fails the test. */
export async function acquireLease(
  on: TestController,
  secret: string,
  change: object = {},
): Promise<WireLease> {
  const answer = await mutate(on, 'leases.acquire', { secret, input: wanted(change) });
  const { lease } = answer as { lease?: WireLease };
  invariant(lease !== undefined, `the test expected a grant: ${JSON.stringify(answer)}`);
  return lease;
}

/** What names a grant. */
export function refOf({ leaseId, fencingToken }: WireLease): {
  leaseId: string;
  fencingToken: string;
} {
  return { leaseId, fencingToken };
}

/** Moves a grant into the past, as if `byMs` had gone by. */
export async function ageLease(on: TestController, leaseId: string, byMs: number): Promise<void> {
  await on.controller.store.general.$queryRaw`
    update lease
    set granted_at = granted_at - ${byMs} * interval '1 millisecond',
        expires_at = expires_at - ${byMs} * interval '1 millisecond'
    where lease_id = ${leaseId}::uuid returning name`;
}

/** The callers that wait in line for a key, the first one first. */
export async function lineFor(on: TestController, name: unknown): Promise<string[]> {
  const rows = await on.controller.store.general.$queryRaw<{ waiter: string }[]>`
    select waiter from lease_waiter
    where name = ${name} and valid_until > clock_timestamp() order by id`;
  return rows.map(({ waiter }) => waiter);
}
