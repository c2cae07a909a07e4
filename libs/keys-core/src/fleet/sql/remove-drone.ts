import { LeaseError } from '../../kernel/errors.ts';
import { onlyRow } from '../../postgres/sql.ts';
import { readTokensOf } from '../../access/index.ts';
import { readClock, type RecordSql } from '../../postgres/records.ts';
import type { RemovedDrone } from '../fleet-views.ts';
import { droneFacts } from './drones.ts';

/** The names of this many tokens are in an answer. */
const TOKENS_NAMED_MAX = 20;

/**
 * Forgets a drone that is not connected and of whose backends none may run. Its ended backends, the history and the
 * audit keep its id. Tokens stay as they are: one that is in force may register the id again, as a new drone.
 *
 * - **Locks** the drone's row, as draining does: a connect that has chosen the drone comes first, and is seen.
 * - What was never acknowledged is cancelled: nobody will.
 *
 * @throws {LeaseError} `drone.not_found`, `drone.in_use`.
 */
export async function removeDrone(
  tx: RecordSql,
  droneId: string,
  heartbeatMs: number,
): Promise<RemovedDrone> {
  const locked = await tx.$queryRaw<{ id: string }[]>`
    select d.id from drone d where d.id = ${droneId} collate "C" for update`;
  if (locked.length === 0) throw new LeaseError('drone.not_found');
  // Read after the lock was had: a statement does not see what was committed while it waited.
  const { isConnected, backendCount } = onlyRow(
    await tx.$queryRaw<{ isConnected: boolean; backendCount: number }[]>`
      select ${droneFacts(heartbeatMs)} from drone d where d.id = ${droneId} collate "C"`,
  );
  if (isConnected || backendCount > 0) {
    throw new LeaseError('drone.in_use', problemOf(isConnected, backendCount), {
      details: { isConnected, backendCount },
    });
  }
  const { drone, backendAction, droneQuestion } = tx.records;
  await drone.deleteMany({ where: { id: droneId } });
  await backendAction.updateMany({
    where: { droneId, ackedAt: null, cancelledAt: null },
    data: { cancelledAt: await readClock(tx) },
  });
  await droneQuestion.deleteMany({ where: { droneId } });
  return { tokens: await readTokensOf(tx, droneId, TOKENS_NAMED_MAX) };
}

function problemOf(isConnected: boolean, backendCount: number): string {
  const backends = `${String(backendCount)} of its backends may still run`;
  if (!isConnected) return `${backends}: they end at the latest when their keys expire.`;
  return `The drone is connected${backendCount > 0 ? `, and ${backends}` : ''}: stop it first.`;
}
