import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { refusal, usageFailure } from '../../failures/failure.ts';
import { findKey } from '../../arguments/key-lookup.ts';
import { withKey, withReason } from '../../options.ts';
import { printable } from '../../output/printable.ts';

interface RevokeOptions {
  readonly namespace: string;
  readonly datacenter?: string;
  readonly reason: string;
  readonly force?: boolean;
  readonly abandon?: boolean;
}

const HELP = `
Without --force, renewal is blocked and the backend is told to stop. The key is free when the backend
has stopped, or when the key has expired.

--force ends the grant at once: no renewal or release of it succeeds any more, and the drone kills the
backend. A drone that cannot be reached kills it by its last deadline. The key is granted to nobody else
until the backend has ended, or that deadline has passed.

--force --abandon allows a new grant without that wait. Two backends may then run until the time that is
printed. Only the fencing token distinguishes them.`;

/** `leasehold keys revoke`. */
export function addKeysRevoke(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'revoke <name>', 'Revoke a key');
  withReason(withKey(command), true)
    .option('--force', 'end the grant at once, and kill the backend')
    .option('--abandon', 'with --force: do not wait until the backend is known to be gone')
    .addHelpText('after', HELP)
    .action(async (name: string, options: RevokeOptions) => {
      const { namespace, datacenter, reason } = options;
      const isForced = options.force === true;
      const isAbandoned = options.abandon === true;
      if (isAbandoned && !isForced) throw usageFailure('--abandon needs --force.');
      const client = cli.client();
      const found = await findKey(client, { name, namespace, datacenter });
      const answer = await client.keys.revoke.mutate({
        leaseId: found.leaseId,
        mode: isForced ? 'force' : 'graceful',
        reason,
        abandon: isAbandoned,
        datacenter: found.datacenter,
      });
      if (answer.outcome === 'gone') {
        throw refusal('key.not_held', `Nobody holds ${printable(name)}: it is ${found.phase}.`);
      }
      cli.show(answer, () => outcomeText(printable(name), answer, isAbandoned));
    });
}

function outcomeText(
  name: string,
  { outcome, stopsBy }: { outcome: string; stopsBy: string | null },
  isAbandoned: boolean,
): string {
  const until = stopsBy ?? 'its last deadline';
  if (outcome === 'revoking') {
    return `${name} is being revoked: its backend was told to stop, and is gone by ${until}.`;
  }
  return isAbandoned
    ? `${name} was revoked and is free. Its backend may run until ${until}, beside a new one.`
    : `${name} was revoked. It can be granted again when its backend is gone, by ${until} at the latest.`;
}
