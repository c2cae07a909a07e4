/** Why a request for an environment is refused: the freeze that stops it. */
import type { FreezeInForce } from '../kernel/freeze.ts';
import type { GrantRequest } from '../kernel/lease.ts';
import type { KernelStore } from '../postgres/kernel-store.ts';
import { isoOf, type Sql } from '../postgres/sql.ts';
import { windowsFrom } from './freeze-windows.ts';
import { advanceFreeze, readStoppingFreezes, type StoppingFreeze } from './sql/freezes.ts';

/**
 * The freezes that stop these requests, by lease id; of several the one that lasts the longest. One that recurs and
 * whose window is over is given its next window first, and is not among them: the next try decides. While nobody
 * asks for its environments it may stay as it is: it then stops the first caller only until this is done.
 */
export async function freezesInForce(
  { general }: Pick<KernelStore, 'general'>,
  sql: Sql<'general' | 'guests' | 'transitions'>,
  requests: readonly GrantRequest[],
): Promise<Map<string, FreezeInForce>> {
  const found = new Map<string, FreezeInForce>();
  const asked = requests.filter(({ face }) => face === 'environment');
  if (asked.length === 0) return found;
  const advanced = new Set<string>();
  for (const freeze of await readStoppingFreezes(sql, asked)) {
    const leaseId = asked[freeze.place - 1]?.leaseId;
    if (freeze.windowUntil > freeze.asOf) {
      if (leaseId !== undefined && !found.has(leaseId)) found.set(leaseId, inForce(freeze));
    } else if (!advanced.has(freeze.freezeId)) {
      advanced.add(freeze.freezeId);
      await advanceFreeze(general, freeze.freezeId, freeze.windowUntil, nextWindow(freeze));
    }
  }
  return found;
}

function nextWindow({ schedule, durationMs, zone, asOf }: StoppingFreeze) {
  if (schedule === null || durationMs === null || zone === null) return undefined;
  return windowsFrom({ schedule, durationMs, zone }, asOf, 1)[0];
}

function inForce(freeze: StoppingFreeze): FreezeInForce {
  const { freezeId, namespace, name, reason, windowUntil, passRoles, passPeople, asOf } = freeze;
  return {
    freezeId,
    namespace,
    name,
    reason,
    until: isoOf(windowUntil),
    remainingMs: Math.ceil(windowUntil - asOf),
    allow: { roles: passRoles, people: passPeople },
  };
}
