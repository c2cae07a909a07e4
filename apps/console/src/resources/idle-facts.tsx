import type { ReactNode } from 'react';
import type { BackendView } from '@leasehold/keys-core/fleet';
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
