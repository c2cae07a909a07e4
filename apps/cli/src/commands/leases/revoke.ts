import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { refusal } from '../../failures/failure.ts';
import { findLease, LEASES, withScope, type LeaseFace } from '../../arguments/lease-lookup.ts';
import { withReason } from '../../options.ts';
import { printable } from '../../output/printable.ts';
import { parseScope, scopeText, type Scope } from '../../arguments/scope.ts';

/** The options that revoke a lease or an environment. */
export interface LeaseRevokeOptions {
  readonly namespace?: string;
  readonly datacenter?: string;
  readonly reason: string;
  readonly force?: boolean;
}

const HELP = `
Without --force, the lease is not renewed any more and its holder is told to stop. It is free when
the holder has released it, or when it has expired.

--force ends the grant at once, and the lease is free: no renewal, release or fenced transaction of
it succeeds any more. A connected holder is notified. One that cannot be reached may continue to work
until the time that is printed. Only the fencing token distinguishes its work from that of the next holder.`;

/** `leasehold leases revoke`. */
export function addLeasesRevoke(cli: Cli, parent: Command): void {
  withRevokeOptions(cli.leaf(parent, 'revoke <scope>', 'Revoke a lease')).action(
    async (text: string, options: LeaseRevokeOptions) => {
      const client = cli.client();
      const scope = parseScope(text, options.namespace);
      const lease = await findLease(LEASES, client, scope, options.datacenter);
      const answer = await client.leases.revoke.mutate(revokeInput(lease.leaseId, options));
      assertHeld(LEASES, answer.outcome, { scope, phase: lease.phase });
      cli.show(answer, () => revokedText(scope, lease.holder, answer));
    },
  );
}

/** Adds the options of a revocation, and explains what it does. */
export function withRevokeOptions(command: Command): Command {
  return withReason(withScope(command), true)
    .option('--force', 'end the grant at once, without asking its holder')
    .addHelpText('after', HELP);
}

/** What the API takes. */
export function revokeInput(
  leaseId: string,
  { force, reason, datacenter }: LeaseRevokeOptions,
): {
  leaseId: string;
  mode: 'graceful' | 'force';
  reason: string;
  datacenter: string | undefined;
} {
  return { leaseId, mode: force === true ? 'force' : 'graceful', reason, datacenter };
}

/** @throws {CliFailure} `lease.not_held` when there was no grant to revoke. */
export function assertHeld(
  face: LeaseFace,
  outcome: 'revoking' | 'revoked' | 'gone',
  { scope, phase }: { readonly scope: Scope; readonly phase: string },
): void {
  if (outcome !== 'gone') return;
  throw refusal(
    `${face.noun}.not_held`,
    `Nobody holds ${scopeText(scope)}: it ${phase === 'held' || phase === 'expiring' ? 'has ended meanwhile' : `is ${phase}`}.`,
  );
}

/** The text for people: what has changed, and until when the former holder may still act. */
export function revokedText(
  scope: Scope,
  holder: string,
  { outcome, stopsBy }: { readonly outcome: string; readonly stopsBy: string | null },
): string {
  const until = stopsBy ?? 'its last deadline';
  return outcome === 'revoking'
    ? `${scopeText(scope)} is being revoked: ${printable(holder)} was told to stop, and it is free by ${until}.`
    : `${scopeText(scope)} was revoked and is free. If ${printable(holder)} cannot be reached, it may act until ${until}.`;
}
