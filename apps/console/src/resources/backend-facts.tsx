import type { ReactNode } from 'react';
import type { BackendDetail, BackendView } from '@leasehold/keys-core/fleet';
import { duration } from '~/lib/format.ts';
import { RelativeTime } from '~/ui/text.tsx';

const SECOND_MS = 1_000;

/** When a backend is stopped that nobody uses, and when it was used last; nothing for one that runs on. */
export function idleFacts({
  idleStopSeconds,
  lastUsedAt,
  idleStopAt,
}: Pick<BackendView, 'idleStopSeconds' | 'lastUsedAt' | 'idleStopAt'>): Record<string, ReactNode> {
  if (idleStopSeconds === null) return {};
  return {
    'Idle stop': `after ${duration(idleStopSeconds * SECOND_MS)} without a use`,
    'Last use': lastUsedAt === null ? null : <RelativeTime at={lastUsedAt} />,
    'Stops when unused': idleStopAt === null ? null : <RelativeTime at={idleStopAt} />,
  };
}

/** Who uses a backend through gateways; nothing for one that nobody does. */
export function gatewayFacts({
  throughGateways,
}: Pick<BackendDetail, 'throughGateways'>): Record<string, ReactNode> {
  if (throughGateways === null) return {};
  const { connections, users, requestsPerSecond } = throughGateways;
  return {
    'Through gateways': `${String(connections)} open, ${String(users)} users`,
    Requests: `${requestsPerSecond.toFixed(1)} a second`,
  };
}
