import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { refusal, usageFailure } from '../../failure.ts';
import { findKey } from '../../key-lookup.ts';
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
Without --force, renewal is blocked and the backend is told to stop; its key is free when it has
stopped, or has run out.

--force ends the grant at once: no renewal or release of it succeeds any more, and its drone is told
to kill the backend. A drone that cannot be reached kills it by its last deadline. The key is given
to nobody else before one of the two.

--force --abandon gives the key away without that wait. Two backends may then run at the same time
until the moment that is printed. Only the fencing token tells them apart.`;

/** `leasehold keys revoke`. */
export function addKeysRevoke(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'revoke <name>', 'Take a key from its holder');
  withReason(withKey(command), true)
    .option('--force', 'end the grant now, and have the backend killed')
    .option('--abandon', 'with --force: do not wait until the backend is known to be gone')
    .addHelpText('after', HELP)
    .action(async (name: string, options: RevokeOptions) => {
      const { namespace, datacenter, reason } = options;
      const isForced = options.force === true;
      const isAbandoned = options.abandon === true;
      if (isAbandoned && !isForced) throw usageFailure('--abandon is for --force.');
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
    ? `${name} was revoked and is free. Its backend may go on running until ${until}, beside a new one.`
    : `${name} was revoked. It is given away again when its backend is gone, by ${until} at the latest.`;
}
