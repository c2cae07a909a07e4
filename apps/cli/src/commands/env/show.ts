import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { ENVIRONMENTS, findLease, withScope } from '../../arguments/lease-lookup.ts';
import { leaseDetails } from '../../output/lease-text.ts';
import { parseScope } from '../../arguments/scope.ts';

/** `leasehold env show`. */
export function addEnvShow(cli: Cli, parent: Command): void {
  withScope(cli.leaf(parent, 'show <environment>', 'Show one environment')).action(
    async (
      text: string,
      { namespace, datacenter }: { namespace?: string; datacenter?: string },
    ) => {
      const lease = await findLease(
        ENVIRONMENTS,
        cli.client(),
        parseScope(text, namespace),
        datacenter,
      );
      cli.show(lease, () => leaseDetails('environment', lease));
    },
  );
}
