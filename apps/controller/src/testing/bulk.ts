import { randomUUID } from 'node:crypto';
import type { BulkProgress } from '@leasehold/keys-core/bulk';
import type { GrantRef } from '@leasehold/keys-core';
import { waitUntil } from '@leasehold/testing';
import type { TestController } from './test-controller.ts';
import type { TestDrone } from './test-drone.ts';
import { mutate, query } from './wire.ts';
import { wanted, type WireLease } from './wire-leases.ts';

/** Acquires many leases of a namespace at once; their keys are `k0`, `k1` and so on. */
export async function acquireLeases(
  on: TestController,
  secret: string,
  count: number,
  namespace = 'test',
): Promise<GrantRef[]> {
  const items = Array.from({ length: count }, (_, at) =>
    untimed(wanted({ namespace: [namespace], key: `k${String(at)}` })),
  );
  const answer = await mutate(on, 'leases.acquireMany', {
    secret,
    input: { localTimeMs: 1_000, items },
  });
  const { results } = answer as { results: { lease: WireLease }[] };
  return results.map(({ lease: { leaseId, fencingToken } }) => ({ leaseId, fencingToken }));
}

/** One item of many: only the call has the time. */
function untimed({ localTimeMs: _localTimeMs, ...item }: Record<string, unknown>): object {
  return item;
}

/** A key whose backend was given to the drone: until that is acknowledged, it is sent no further commands. */
export async function connectStarted(
  on: TestController,
  secret: string,
  drone: TestDrone,
  program = 'room',
): Promise<WireLease & { readonly backendId: string }> {
  const key = await mutate(on, 'keys.connect', {
    secret,
    input: { key: { name: randomUUID() }, spawn: { program } },
  });
  const spawn = await waitUntil(() => drone.messages.find(({ kind }) => kind === 'spawn'));
  await drone.ack('actionId' in spawn ? spawn.actionId : '');
  return key as WireLease & { backendId: string };
}

/** Starts a bulk action and returns its id, or the code of the refusal. */
export async function startBulkAction(
  on: TestController,
  secret: string,
  input: object,
): Promise<string> {
  const answer = await mutate(on, 'bulk.start', { secret, input: { reason: 'test', ...input } });
  return typeof answer === 'string' ? answer : (answer as { bulkId: string }).bulkId;
}

export async function bulkProgress(on: TestController, bulkId: string): Promise<BulkProgress> {
  const { secret } = await on.token('viewer');
  return (await query(on, 'bulk.get', { secret, input: { bulkId } })) as BulkProgress;
}

/** The progress, as soon as it is as expected. */
export async function bulkProgressWhen(
  on: TestController,
  bulkId: string,
  isSo: (seen: BulkProgress) => boolean = ({ state }) => state === 'done',
): Promise<BulkProgress> {
  return waitUntil(
    async () => {
      const seen = await bulkProgress(on, bulkId);
      return isSo(seen) ? seen : undefined;
    },
    { what: 'the bulk action to come so far', timeoutMs: 40_000, pollMs: 50 },
  );
}

/** How many events of a kind there are, and of how many grants. */
export async function countEvents(
  on: TestController,
  kind: string,
): Promise<{ events: number; grants: number }> {
  const rows = await on.controller.store.general.$queryRaw<{ events: number; grants: number }[]>`
    select count(*)::int as events, count(distinct lease_id)::int as grants
    from lease_event where kind = ${kind}`;
  return rows[0] ?? { events: 0, grants: 0 };
}

/** How many audit entries of an action there are, and on how many resources. */
export async function countAudit(
  on: TestController,
  action: string,
): Promise<{ entries: number; resources: number }> {
  const rows = await on.controller.store.general.$queryRaw<
    { entries: number; resources: number }[]
  >`
    select count(*)::int as entries, count(distinct resource)::int as resources
    from audit where action = ${action}`;
  return rows[0] ?? { entries: 0, resources: 0 };
}
