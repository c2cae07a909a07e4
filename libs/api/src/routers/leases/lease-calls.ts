/** What leases and environments have in common on the wire. */
import type { GrantRef } from '@leasehold/keys-core';
import type { LeaseRenewResult } from '@leasehold/keys-core/leases';
import { callerOf, type Access } from '../../access/access.ts';
import type { ApiContext, LeaseFace } from '../../context.ts';
import { grantRefSchema } from '../../contract/common.ts';
import type { CalledContext } from '../../forwarding/elsewhere.ts';
import { failedItem, type FailedItem } from './one-by-one.ts';

/** What a holder is told of the database; see `WitnessService`. */
export interface Told {
  readonly witness: string | undefined;
}

/** Carries out a call that may grant something, once it is known that the database has lost nothing. */
export async function acquiring<Answer extends object>(
  { services }: Pick<ApiContext, 'services'>,
  witness: string | undefined,
  run: () => Promise<Answer>,
): Promise<Answer & Told> {
  await services.witness.consider(witness);
  return { ...(await run()), witness: services.witness.told() };
}

/** Carries out renewals, whatever the database has lost: grants that are still there go on. */
export async function renewing<Answer extends object>(
  { services, procedure }: Pick<CalledContext, 'services' | 'procedure'>,
  witness: string | undefined,
  run: () => Promise<Answer>,
): Promise<Answer & Told> {
  const considered = services.witness.consider(witness).catch((error: unknown) => {
    services.reportFailure(error, procedure);
  });
  const answer = await run();
  await considered;
  return { ...answer, witness: services.witness.told() };
}

/** A renewal that is not well-formed, with the text that was sent as its lease id. */
export type FailedRenewal = FailedItem & { readonly leaseId: string };

/** Renews many at once. A renewal that is not well-formed does not fail the others. */
export async function renewMany(
  ctx: Pick<ApiContext, 'services' | 'use'> & { readonly access: Access },
  face: LeaseFace,
  input: { readonly localTimeMs: number; readonly renewals: readonly unknown[] },
): Promise<{ results: (LeaseRenewResult | FailedRenewal)[] }> {
  await ctx.use?.countItems(input.renewals.length, 'urgent');
  const renewals: GrantRef[] = [];
  const failed: FailedRenewal[] = [];
  for (const renewal of input.renewals) {
    const parsed = grantRefSchema.safeParse(renewal);
    if (parsed.success) renewals.push(parsed.data);
    else {
      const problem = failedItem(ctx.services, 'heartbeat', parsed.error);
      failed.push({ ...problem, leaseId: leaseIdIn(renewal) });
    }
  }
  const { localTimeMs } = input;
  const renewed =
    renewals.length === 0
      ? []
      : await face.heartbeat({ localTimeMs, renewals }, callerOf(ctx.access));
  return { results: [...renewed, ...failed] };
}

const LEASE_ID_LENGTH_MAX = 64;

function leaseIdIn(renewal: unknown): string {
  const isObject = typeof renewal === 'object' && renewal !== null && 'leaseId' in renewal;
  const leaseId = isObject ? renewal.leaseId : undefined;
  return typeof leaseId === 'string' ? leaseId.slice(0, LEASE_ID_LENGTH_MAX) : '';
}
