/** All checks of a history. */
import type { History, Violation } from '../history.ts';
import { checkBare, checkLives } from './backends.ts';
import { erasOf } from './eras.ts';
import { checkEarlySteals, checkEnds, checkExclusion, checkRecords } from './exclusion.ts';
import { checkHomes } from './homes.ts';
import { checkGivenUp, checkIdle, checkOrder } from './queue.ts';
import { checkCrashes, checkRecovery } from './recovery.ts';
import { checkRegisters } from './register.ts';
import { checkDeadlines, checkPromises, checkRenewals, checkReplays } from './renewals.ts';
import { checkHoldOff, checkKept, checkTokensAcross } from './restores.ts';
import {
  checkFrozen,
  checkPermits,
  checkShared,
  checkSharedTokens,
  checkSuperseded,
  checkTogether,
} from './sharing.ts';
import { checkNotices, checkSignals } from './signals.ts';
import { checkSink } from './sink.ts';
import { checkStreams } from './stream.ts';

/** Of what one database has recorded and answered. */
const OF_A_DATABASE = [
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
  checkOrder,
  checkGivenUp,
  checkStreams,
  checkSharedTokens,
  checkTogether,
  checkSuperseded,
] as const;

/** Of a run, whatever became of its database. */
const OF_A_RUN = [
  checkTokensAcross,
  checkHoldOff,
  checkKept,
  checkSignals,
  checkNotices,
  checkIdle,
  checkPermits,
  checkShared,
  checkFrozen,
  checkHomes,
  checkLives,
  checkBare,
  checkRecovery,
  checkCrashes,
] as const;

/** Everything that a history contradicts, in order of time; empty when it contradicts nothing. */
export function check(history: History): Violation[] {
  const eras = erasOf(history);
  return [
    ...OF_A_DATABASE.flatMap((one) => eras.flatMap((era) => one(era))),
    ...OF_A_RUN.flatMap((one) => one(history)),
  ].sort((a, b) => a.atMs - b.atMs);
}
