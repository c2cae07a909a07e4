import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withDatacenter, withReason } from '../../options.ts';
import { printable } from '../../output/printable.ts';

const HELP = `
Say this of a machine that is gone. It takes no new backends, and its keys are not renewed any more:
each is given away when it has run out, not before, because its backend may still run where nobody
can see it.`;

/** `leasehold drones mark-lost`. */
export function addDronesMarkLost(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'mark-lost <drone>', 'Declare a drone permanently lost');
  withReason(withDatacenter(command), false)
    .addHelpText('after', HELP)
    .action(
      async (droneId: string, { reason, datacenter }: { reason?: string; datacenter?: string }) => {
        const answer = await cli.client().drones.markLost.mutate({ droneId, reason, datacenter });
        cli.show(answer, () => `${printable(droneId)} is marked as lost. Its keys run out.`);
      },
    );
}
