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

/** `leasehold leases block-renewal`. */
export function addLeasesBlockRenewal(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'block-renewal <scope>',
    'Let a lease expire: it is not renewed any more, and its holder stops by its deadline',
  );
  withReason(withScope(command), false).action(
    async (text: string, { namespace, datacenter, reason }: LeaseActOptions) => {
      const client = cli.client();
      const scope = parseScope(text, namespace);
      const { leaseId } = await findLease(LEASES, client, scope, datacenter);
      const answer = await client.leases.blockRenewal.mutate({ leaseId, reason, datacenter });
      cli.show(answer, () =>
        answer.changed
          ? `${scopeText(scope)} is not renewed any more, and will expire.`
          : `Nothing changed: renewal of ${scopeText(scope)} was blocked already, or nobody holds it.`,
      );
    },
  );
}
