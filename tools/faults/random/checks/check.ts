/** All checks of a history. */
import type { History, Violation } from '../history.ts';
import { checkBare, checkLives } from './backends.ts';
import { checkEarlySteals, checkEnds, checkExclusion, checkRecords } from './exclusion.ts';
import { checkHomes } from './homes.ts';
import { checkGivenUp, checkIdle, checkOrder } from './queue.ts';
import { checkRecovery } from './recovery.ts';
import { checkRegisters } from './register.ts';
import { checkDeadlines, checkPromises, checkRenewals, checkReplays } from './renewals.ts';
import { checkNotices, checkSignals } from './signals.ts';
import { checkSink } from './sink.ts';
import { checkStreams } from './stream.ts';

const CHECKS = [
  checkExclusion,
  checkEarlySteals,
  checkEnds,
  checkRecords,
  checkPromises,
  checkRenewals,
  checkDeadlines,
  checkReplays,
  checkRegisters,
  checkSink,
  checkSignals,
  checkNotices,
  checkOrder,
  checkGivenUp,
  checkIdle,
  checkStreams,
  checkHomes,
  checkLives,
  checkBare,
  checkRecovery,
] as const;

/** Everything that a history contradicts, in order of time; empty when it contradicts nothing. */
export function check(history: History): Violation[] {
  return CHECKS.flatMap((one) => one(history)).sort((a, b) => a.atMs - b.atMs);
}
