import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withDatacenter, withReason } from '../../options.ts';
import { printable } from '../../output/printable.ts';

/** `leasehold drones undrain`. */
export function addDronesUndrain(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'undrain <drone>', 'Let a drone take new backends again');
  withReason(withDatacenter(command), false).action(
    async (droneId: string, { reason, datacenter }: { reason?: string; datacenter?: string }) => {
      const answer = await cli.client().drones.undrain.mutate({ droneId, reason, datacenter });
      cli.show(answer, () => `${printable(droneId)} takes new backends.`);
    },
  );
}
