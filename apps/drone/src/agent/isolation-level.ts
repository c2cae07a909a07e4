import type { IsolationLevel } from '@leasehold/api/drone-file';
import type { IsolationFacts } from '../warden/link/protocol.ts';

/** The machine does not keep programs from the drone as its configuration requires. */
export class IsolationTooWeak extends Error {
  override readonly name = 'IsolationTooWeak';
}

/** @throws {IsolationTooWeak} saying what is missing. */
export function requireIsolation(facts: IsolationFacts, level: IsolationLevel): void {
  if (meets(facts, level)) return;
  throw new IsolationTooWeak(
    `the configuration requires isolation "${level}", which this machine does not provide: ${facts.detail}`,
  );
}

function meets(facts: IsolationFacts, level: IsolationLevel): boolean {
  const { user, pidNamespace, privateProc, hiddenHome, noNewPrivs } = facts;
  switch (level) {
    case 'none':
      return true;
    case 'namespaces':
      return pidNamespace && privateProc && hiddenHome && noNewPrivs;
    case 'own-user':
      return meets(facts, 'namespaces') && user === 'own';
  }
}
