import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withDatacenter, withReason } from '../../options.ts';
import { durationText } from '../../output/duration.ts';

/** `leasehold hold-off end`. */
export function addHoldOffEnd(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'end',
    'Let new grants be made at once: nobody acts any more on what the database has lost',
  );
  withReason(withDatacenter(command), true).action(
    async ({ reason, datacenter }: { reason: string; datacenter?: string }) => {
      const answer = await cli.client().holdOff.end.mutate({ reason, datacenter });
      cli.show(answer, () =>
        answer.ended === null
          ? 'New grants are not held off: there is nothing to end.'
          : `New grants are made from now on, ${durationText(answer.ended.remainingMs)} early.`,
      );
    },
  );
}
