import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withDatacenter, withReason } from '../../options.ts';
import { printable } from '../../output/printable.ts';

/** `leasehold drones drain`. */
export function addDronesDrain(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'drain <drone>',
    'Start no new backends on a drone; running ones continue',
  );
  withReason(withDatacenter(command), false).action(
    async (droneId: string, { reason, datacenter }: { reason?: string; datacenter?: string }) => {
      const answer = await cli.client().drones.drain.mutate({ droneId, reason, datacenter });
      cli.show(answer, () => {
        const remaining = answer.backends.map((backend) => `\n  ${backend.backendId}`).join('');
        return remaining === ''
          ? `${printable(droneId)} takes no new backends, and runs none.`
          : `${printable(droneId)} takes no new backends. It still runs these; ` +
              `\`leasehold backends terminate ID\` stops one:${remaining}`;
      });
    },
  );
}
