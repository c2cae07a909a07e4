import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { findLease, LEASES, withScope } from '../../arguments/lease-lookup.ts';
import { leaseDetails } from '../../output/lease-text.ts';
import { parseScope } from '../../arguments/scope.ts';

/** `leasehold leases show`. */
export function addLeasesShow(cli: Cli, parent: Command): void {
  withScope(cli.leaf(parent, 'show <scope>', 'Show one lease')).action(
    async (
      text: string,
      { namespace, datacenter }: { namespace?: string; datacenter?: string },
    ) => {
      const lease = await findLease(LEASES, cli.client(), parseScope(text, namespace), datacenter);
      cli.show(lease, () => leaseDetails('lease', lease));
    },
  );
}
