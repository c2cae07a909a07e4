import type { Command } from 'commander';
import { scopeText, type Scope } from '../../arguments/scope.ts';
import type { Cli } from '../../cli.ts';
import { refusal } from '../../failures/failure.ts';
import { withReason } from '../../options.ts';
import { isHeld } from '../../output/lease-text.ts';
import { printable } from '../../output/printable.ts';
import { findLease, withScope, type LeaseFace, type ScopeOptions } from './lease-face.ts';

interface RevokeOptions extends ScopeOptions {
  readonly reason: string;
  readonly force?: boolean;
}

const HELP = `
Without --force, the lease is not renewed any more and its holder is told to stop. It is free when
the holder has released it, or when it has expired.

--force ends the grant at once, and the lease is free: no renewal, release or fenced transaction of
it succeeds any more. A connected holder is notified. One that cannot be reached may continue to work
until the time that is printed. Only the fencing token distinguishes its work from that of the next holder.`;

/** `leasehold leases revoke` and `leasehold env revoke`. */
export function addRevoke(cli: Cli, parent: Command, face: LeaseFace): void {
  const { noun, aNoun, router, argument } = face;
  const command = cli.leaf(parent, `revoke ${argument}`, `Revoke ${aNoun}`);
  withReason(withScope(command), true)
    .option('--force', 'end the grant at once, without asking its holder')
    .addHelpText('after', HELP)
    .action(async (text: string, options: RevokeOptions) => {
      const client = cli.client();
      const { scope, lease } = await findLease(face, client, text, options);
      const { force, reason, datacenter } = options;
      const mode = force === true ? 'force' : 'graceful';
      const { leaseId } = lease;
      const answer = await client[router].revoke.mutate({ leaseId, mode, reason, datacenter });
      if (answer.outcome === 'gone') {
        const why = isHeld(lease) ? 'has ended meanwhile' : `is ${lease.phase}`;
        throw refusal(`${noun}.not_held`, `Nobody holds ${scopeText(scope)}: it ${why}.`);
      }
      cli.show(answer, () => revokedText(scope, lease.holder, answer));
    });
}

/** What has changed, and until when the former holder may still act. */
function revokedText(
  scope: Scope,
  holder: string,
  { outcome, stopsBy }: { readonly outcome: string; readonly stopsBy: string | null },
): string {
  const until = stopsBy ?? 'its last deadline';
  return outcome === 'revoking'
    ? `${scopeText(scope)} is being revoked: ${printable(holder)} was told to stop, and it is free by ${until}.`
    : `${scopeText(scope)} was revoked and is free. If ${printable(holder)} cannot be reached, it may act until ${until}.`;
}
