import type {
  Acquire,
  CommittedEvent,
  FaultSeen,
  History,
  Hold,
  Operation,
  Renew,
  Violation,
} from '../../history.ts';
import { check } from '../check.ts';

export const RESOURCE = 'lease ns/a';

export const EMPTY: History = {
  beganAtMs: 0,
  endedAtMs: 100_000,
  lost: [],
  events: [],
  operations: [],
  holds: [],
  sink: [],
  writes: [],
  promises: [],
  tickets: [],
  idle: [],
  bare: [],
  streams: [],
  rows: [],
  homes: [],
  testimony: [],
  faults: [],
  steps: [],
  crashes: [],
  freezes: [],
  starved: [],
};

/** An event whose id is its time: those of a test are in order. */
export function event(
  kind: string,
  token: string,
  atMs: number,
  of: Partial<CommittedEvent> = {},
): CommittedEvent {
  const place = { datacenter: 'local', resource: RESOURCE };
  const grant = { leaseId: `lease-${token}`, holder: `holder-${token}`, reason: '' };
  return { id: atMs, atMs, kind, token, ...place, ...grant, ...of };
}

function called(name: string, calledAtMs: number, repliedAtMs: number) {
  const id = `${name}-${String(calledAtMs)}`;
  return { id, process: 'p', resource: RESOURCE, calledAtMs, repliedAtMs };
}

type Times = readonly [calledAtMs: number, repliedAtMs: number];

export function acquired(token: string, [from, until]: Times, loseAtMs = until + 1_000): Acquire {
  return {
    ...called('acquire', from, until),
    kind: 'acquire',
    holder: `holder-${token}`,
    waitMs: 0,
    answer: { outcome: 'granted', leaseId: `lease-${token}`, token, loseAtMs },
  };
}

export function refused(by: string, [from, until]: Times, waitMs = 0): Acquire {
  const holder = `refused-${String(from)}`;
  const answer = { outcome: 'held', by: `holder-${by}` } as const;
  return { ...called('acquire', from, until), kind: 'acquire', holder, waitMs, answer };
}

export function renewed(token: string, [from, until]: Times, loseAtMs = until + 1_000): Renew {
  const answer = { outcome: 'renewed', loseAtMs } as const;
  return {
    ...called('renew', from, until),
    kind: 'renew',
    leaseId: `lease-${token}`,
    token,
    answer,
  };
}

export function notRenewed(token: string, times: Times): Renew {
  return { ...renewed(token, times), answer: { outcome: 'refused', reason: 'not_found' } };
}

export function released(token: string, [from, until]: Times, report = 'released'): Operation {
  const answer = { outcome: 'answered', report } as const;
  const grant = { leaseId: `lease-${token}`, token };
  return { ...called('release', from, until), kind: 'release', ...grant, answer };
}

export function cancelled(of: string, [from, until]: Times): Operation {
  const answer = { outcome: 'answered', report: 'released' } as const;
  return { ...called('cancel', from, until), kind: 'cancel', holder: `holder-${of}`, answer };
}

export function revoked(of: string, [from, until]: Times): Operation {
  const answer = { outcome: 'answered', report: 'revoked' } as const;
  return { ...called('revoke', from, until), kind: 'revoke', leaseId: `lease-${of}`, answer };
}

export function hold(token: string, fromMs: number, untilMs: number, of: Partial<Hold>): Hold {
  const grant = { resource: RESOURCE, leaseId: `lease-${token}`, token };
  return { process: 'p', ...grant, fromMs, untilMs, end: 'lost', lateMs: 0, stallMs: 0, ...of };
}

export function fault(fromMs: number, untilMs: number, of: Partial<FaultSeen> = {}): FaultSeen {
  return {
    id: 'fault',
    name: 'F12',
    target: 'database',
    fromMs,
    untilMs,
    recoveredAtMs: untilMs,
    reaches: ['leases', 'keys'],
    recoveryMsMax: 5_000,
    ...of,
  };
}

/** What a checker says of a history, by the invariant alone. */
export function found(history: Partial<History>): Violation['invariant'][] {
  return check({ ...EMPTY, ...history }).map(({ invariant }) => invariant);
}
