import type { ErrorCode } from '@leasehold/keys-core';
import { describeError } from '../error-map.ts';
import type { UnreachableDatacenter } from '../services/datacenters.ts';
import { assertKnown, sendOn, type CalledContext } from './elsewhere.ts';

export type Asked<Answer> =
  | { readonly outcome: 'answered'; readonly answer: Answer }
  | { readonly outcome: 'unreachable'; readonly unreachable: UnreachableDatacenter };

/** What it answers, besides failures, when it cannot answer now. */
const NOT_NOW: ReadonlySet<ErrorCode> = new Set(['request.deadline', 'request.rate_limited']);

/**
 * Asks another datacenter the same, unless it is known to be away. One that says that it cannot answer
 * now is as good as away; what the caller did wrong is thrown. The answer has the type of this
 * procedure's own, for it is the same procedure.
 * @throws {LeaseError} `reservation.unknown_datacenter`, and what the procedure refuses.
 */
export async function askedOf<Answer>(
  ctx: CalledContext,
  datacenter: string,
  input: Readonly<Record<string, unknown>>,
): Promise<Asked<Answer>> {
  assertKnown(ctx, datacenter);
  const { datacenters } = ctx.services;
  const away = datacenters.away(datacenter);
  if (away !== undefined) return { outcome: 'unreachable', unreachable: away };
  try {
    return { outcome: 'answered', answer: (await sendOn(ctx, datacenter, { input })) as Answer };
  } catch (error) {
    const { leaseholdCode: code, httpStatus } = describeError(error);
    if (httpStatus < 500 && !NOT_NOW.has(code)) throw error;
    const since = datacenters.away(datacenter)?.since ?? null;
    return { outcome: 'unreachable', unreachable: { datacenter, since, code } };
  }
}
