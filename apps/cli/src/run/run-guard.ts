import { once } from 'node:events';
import { createBootClock } from '@leasehold/service-kit';
import { closeInheritedDescriptors } from '@leasehold/service-kit/inherited-descriptors';
import { Guard } from './guard.ts';
import type { GuardOrder, GuardReport } from './guard-protocol.ts';
import { findDeathSignal, launchCommand } from './launch-command.ts';

/** Signals that somebody sends to the guard itself: they are meant for its command. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Guards a command for the parent process, which gives its orders over a channel, until the command
 * has ended or the parent is gone without one; see `guard-protocol.ts`.
 */
export async function runGuard(
  environment: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  closeInheritedDescriptors();
  const clock = createBootClock();
  const deathSignal = await findDeathSignal(environment['PATH'] ?? '');
  const guard = new Guard({
    nowMs: () => clock.nowMs(),
    launch: (command, added) => launchCommand(command, { ...environment, ...added }, deathSignal),
    report: (report) => {
      tell(report);
      if (isLast(report)) over.abort();
    },
  });
  const over = new AbortController();
  const stopTicking = clock.onTick(() => guard.tick());
  process.on('message', (order: GuardOrder) => guard.take(order));
  for (const signal of SIGNALS) {
    process.on(signal, () => guard.take({ type: 'signal', signal }));
  }
  process.once('disconnect', () => {
    if (!guard.orphaned()) over.abort();
  });
  tell({ type: 'ready' });
  if (!process.connected) over.abort();
  if (!over.signal.aborted) await once(over.signal, 'abort');
  stopTicking();
}

function tell(report: GuardReport): void {
  // A process that has ended needs no message.
  if (process.connected) process.send?.(report, undefined, undefined, () => undefined);
}

function isLast({ type }: GuardReport): boolean {
  return type === 'ended' || type === 'not_started';
}
