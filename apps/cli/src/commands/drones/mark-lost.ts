import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withDatacenter, withReason } from '../../options.ts';
import { printable } from '../../output/printable.ts';

const HELP = `
Use this for a machine that is gone. It gets no new backends, and its keys are not renewed any more.
Each key is granted again only when it has expired, because its backend may still run unseen.`;

/** `leasehold drones mark-lost`. */
export function addDronesMarkLost(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'mark-lost <drone>', 'Declare a drone permanently lost');
  withReason(withDatacenter(command), false)
    .addHelpText('after', HELP)
    .action(
      async (droneId: string, { reason, datacenter }: { reason?: string; datacenter?: string }) => {
        const answer = await cli.client().drones.markLost.mutate({ droneId, reason, datacenter });
        cli.show(answer, () => `${printable(droneId)} is marked as lost. Its keys expire.`);
      },
    );
}
