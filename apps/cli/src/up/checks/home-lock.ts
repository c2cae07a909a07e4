import { join } from 'node:path';
import { lockOwner, tryLock } from '../../config/process-lock.ts';
import { refusal } from '../../failures/failure.ts';
import type { ProcessIdentity } from '../processes/process-identity.ts';

/**
 * Makes this process the one `leasehold up` of a home directory, until it ends or calls the
 * returned function.
 *
 * @throws {CliFailure} `up.running` when another one runs.
 */
export function lockHome(home: string): () => void {
  const answer = tryLock(lockPathOf(home));
  if (answer.outcome === 'locked') return answer.unlock;
  throw refusal(
    'up.running',
    `leasehold up runs already for ${home}, as process ${String(answer.owner.pid)}.`,
    'Use that one, end it with Ctrl-C, or set LEASEHOLD_HOME to another directory.',
  );
}

/** Whether a `leasehold up` of this home runs now. */
export function runningUpOf(home: string): ProcessIdentity | undefined {
  return lockOwner(lockPathOf(home));
}

function lockPathOf(home: string): string {
  return join(home, 'up.lock');
}
