import { readdirSync } from 'node:fs';
import { isEnded, isErrorCode, statFieldsOf } from '../up/processes/process-identity.ts';

/**
 * Signals every process of the session that `leaderPid` began: its process group at once, and where
 * /proc shows them, those that made groups of their own, as shells with job control do.
 * @returns whether one of them was alive. Where there is no /proc, one that has ended and was not
 * waited for counts as alive.
 */
export function signalSession(leaderPid: number, signal: NodeJS.Signals): boolean {
  const isGroupThere = trySignal(-leaderPid, signal);
  const members = livingMembers(leaderPid);
  if (members === undefined) return isGroupThere;
  for (const { pid, groupId } of members) {
    if (groupId !== leaderPid) trySignal(pid, signal);
  }
  return members.length > 0;
}

interface Member {
  readonly pid: number;
  readonly groupId: number;
}

function livingMembers(leaderPid: number): Member[] | undefined {
  let names: string[];
  try {
    names = readdirSync('/proc').filter((name) => /^\d+$/u.test(name));
  } catch {
    return undefined;
  }
  if (names.length === 0) return undefined;
  return names.flatMap((name) => {
    const [state = '', , groupId, sessionId] = statFieldsOf(name) ?? [];
    if (Number(sessionId) !== leaderPid || isEnded(state)) return [];
    return [{ pid: Number(name), groupId: Number(groupId) }];
  });
}

/** @returns whether there was a process that may be signalled. */
function trySignal(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    // Gone; or somebody else's, such as what sudo starts.
    if (isErrorCode(error, 'ESRCH') || isErrorCode(error, 'EPERM')) return false;
    throw error;
  }
}
