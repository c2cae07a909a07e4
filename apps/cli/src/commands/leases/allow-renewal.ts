import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import {
  findLease,
  LEASES,
  withScope,
  type LeaseActOptions,
} from '../../arguments/lease-lookup.ts';
import { withReason } from '../../options.ts';
import { parseScope, scopeText } from '../../arguments/scope.ts';

/** `leasehold leases allow-renewal`. */
export function addLeasesAllowRenewal(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'allow-renewal <scope>',
    'Undo block-renewal, if the lease has not expired; a holder that has stopped does not continue',
  );
  withReason(withScope(command), false).action(
    async (text: string, { namespace, datacenter, reason }: LeaseActOptions) => {
      const client = cli.client();
      const scope = parseScope(text, namespace);
      const { leaseId } = await findLease(LEASES, client, scope, datacenter);
      const answer = await client.leases.allowRenewal.mutate({ leaseId, reason, datacenter });
      cli.show(answer, () =>
        answer.changed
          ? `${scopeText(scope)} may be renewed again.`
          : `Nothing changed: renewal of ${scopeText(scope)} was allowed already, or nobody holds it.`,
      );
    },
  );
}
