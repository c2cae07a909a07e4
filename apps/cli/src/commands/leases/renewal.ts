import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import {
  findLease,
  LEASES,
  withScope,
  type LeaseActOptions,
} from '../../arguments/lease-lookup.ts';
import { parseScope, scopeText } from '../../arguments/scope.ts';
import { withReason } from '../../options.ts';
import { renewalText, type RenewalAct } from '../renewal.ts';

/** `leasehold leases block-renewal`. */
export function addLeasesBlockRenewal(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'block-renewal <scope>',
    'Let a lease expire: it is not renewed any more, and its holder stops by its deadline',
  );
  withReason(withScope(command), false).action(acting(cli, 'blockRenewal'));
}

/** `leasehold leases allow-renewal`. */
export function addLeasesAllowRenewal(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'allow-renewal <scope>',
    'Undo block-renewal, if the lease has not expired; a holder that has stopped does not continue',
  );
  withReason(withScope(command), false).action(acting(cli, 'allowRenewal'));
}

function acting(cli: Cli, act: RenewalAct) {
  return async (text: string, options: LeaseActOptions): Promise<void> => {
    const { namespace, datacenter, reason } = options;
    const client = cli.client();
    const scope = parseScope(text, namespace);
    const { leaseId } = await findLease(LEASES, client, scope, datacenter);
    const answer = await client.leases[act].mutate({ leaseId, reason, datacenter });
    cli.show(answer, () => renewalText(act, scopeText(scope), answer.changed));
  };
}
