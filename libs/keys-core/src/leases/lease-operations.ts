/** What people look at and do with leases and environments. */
import { leaseTopic } from '../kernel/resource/resource.ts';
import { REVOCATIONS_TOPIC } from './sql/revocations.ts';
import { isoOf } from '../postgres/sql.ts';
import { revoke, changeRenewable } from '../grants/index.ts';
import { timed } from '../postgres/statements/timed.ts';
import { historyPage, holderAtMoment, waiterPage } from '../lists/index.ts';
import { declarationPage, declareLeases } from './declarations.ts';
import {
  contentionPage,
  countLeases,
  failingCallbackPage,
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
    count: (input, caller) => countLeases(deps, input, caller),
    tree: (input, caller) => leaseTree(deps, input, caller),
    contention: (input, caller) => contentionPage(deps, input, caller),
    failingCallbacks: (input, caller) => failingCallbackPage(deps, input, caller),
    waiters: (input, caller) => waiterPage(store, { resource: { ...input, face }, caller }, input),
    history: (input, caller) => historyPage(store, { resource: { ...input, face }, caller }, input),
    at: (input, caller) =>
      holderAtMoment(store, { resource: { ...input, face }, caller }, input.at),
    declare: (input, caller) => declareLeases(store, input, caller),
    declared: (input, caller) => declarationPage(store, input, caller),
    async blockRenewal(input, caller) {
      const change = await changeRenewable(store, { face, renewable: false }, input, caller);
      if (change.changed) store.hints.notify(REVOCATIONS_TOPIC);
      return change;
    },
    allowRenewal: (input, caller) =>
      changeRenewable(store, { face, renewable: true }, input, caller),

    async revoke({ leaseId, mode, reason }, { actor, namespaces }) {
      const request = { leaseId, mode, reason, abandon: false, actor, namespaces };
      const revoked = await timed(store, 'revoke', () => revoke(store.general, face, [request]));
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
