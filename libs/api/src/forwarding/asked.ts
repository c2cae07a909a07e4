import type { ErrorCode } from '@leasehold/keys-core';
import { describeError } from '../error-map.ts';
import type { UnreachableDatacenter } from '../services/datacenters.ts';
import { assertKnown, sendOn, type CalledContext } from './elsewhere.ts';

export type Asked<Answer> =
  | { readonly outcome: 'answered'; readonly answer: Answer }
  | { readonly outcome: 'unreachable'; readonly unreachable: UnreachableDatacenter };

/** What a datacenter answers, besides failures, when it cannot answer now. */
const NOT_NOW: ReadonlySet<ErrorCode> = new Set(['request.deadline', 'request.rate_limited']);

/**
 * Sends the same request to another datacenter, unless that is known to be unreachable. One that
 * cannot answer now counts as unreachable; errors that the caller has caused are thrown. The answer
 * has this procedure's own type, because it is the same procedure.
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
