/** What people look at and do with leases and environments. */
import { leaseTopic } from '../kernel/resource/lease-topic.ts';
import { REVOCATIONS_TOPIC } from './sql/revocations.ts';
import { isoOf } from '../postgres/rows.ts';
import { revoke, setRenewable } from '../grants/index.ts';
import { timed } from '../postgres/statements/timed.ts';
import type { Acted, Caller } from '../kernel/face-types.ts';
import { historyPage, waiterPage } from '../lists/index.ts';
import { declarationPage, declareLeases } from './declarations.ts';
import {
  contentionPage,
  getLease,
  leaseTree,
  listLeasePage,
  type LeaseReader,
} from './lease-reads.ts';
import type { LeaseOperations } from './lease-views.ts';
import type { RevocationWatch } from './revocations.ts';

export interface LeaseOperationsDeps extends LeaseReader {
  /** One per controller, for all faces. */
  readonly revocations: RevocationWatch;
}

/** The operations of the leases or the environments face. */
export function createLeaseOperations(deps: LeaseOperationsDeps): LeaseOperations {
  const { store, face, revocations } = deps;
  return {
    get: (input, caller) => getLease(deps, input, caller),
    list: (input, caller) => listLeasePage(deps, input, caller),
    tree: (input, caller) => leaseTree(deps, input, caller),
    contention: (input, caller) => contentionPage(deps, input, caller),
    waiters: (input, caller) => waiterPage(store, { resource: { ...input, face }, caller }, input),
    history: (input, caller) => historyPage(store, { resource: { ...input, face }, caller }, input),
    declare: (input, caller) => declareLeases(store, input, caller),
    declared: (input, caller) => declarationPage(store, input, caller),
    blockRenewal: (input, caller) => changeRenewable(deps, false, { ...input, caller }),
    allowRenewal: (input, caller) => changeRenewable(deps, true, { ...input, caller }),

    async revoke({ leaseId, mode, reason }, caller) {
      const request = { leaseId, mode, reason, abandon: false, ...operatorOf(caller) };
      const revoked = await timed(store, 'revoke', () => revoke(store.prisma, face, [request]));
      const grant = revoked.get(leaseId);
      if (grant === undefined) return { outcome: 'gone', stopsBy: null, resource: null };
      store.hints.notify(REVOCATIONS_TOPIC);
      // A lease revoked by force is free at once: waiters must not wait for their next look.
      if (mode === 'force') store.hints.notify(leaseTopic(grant));
      return {
        outcome: mode === 'force' ? 'revoked' : 'revoking',
        stopsBy: isoOf(grant.stopsBy),
        resource: { face, namespace: grant.namespace, name: grant.name },
      };
    },

    revocations: (caller, signal) => revocations.follow(caller.principal, signal),
  };
}

function operatorOf(caller: Caller): {
  readonly actor: string;
  readonly namespaces: readonly string[] | null;
} {
  return { actor: caller.actor, namespaces: caller.namespaces };
}

async function changeRenewable(
  { store, face }: LeaseOperationsDeps,
  renewable: boolean,
  input: {
    readonly leaseId: string;
    readonly reason?: string | undefined;
    readonly caller: Caller;
  },
): Promise<{ changed: boolean } & Acted> {
  const { leaseId, reason, caller } = input;
  const kind = renewable ? 'allow_renewal' : 'block_renewal';
  const changed = await timed(store, kind, () =>
    setRenewable(store.prisma, face, renewable, [
      { leaseId, reason: reason ?? null, ...operatorOf(caller) },
    ]),
  );
  const resource = changed.get(leaseId) ?? null;
  if (resource !== null && !renewable) store.hints.notify(REVOCATIONS_TOPIC);
  return { changed: resource !== null, resource };
}
