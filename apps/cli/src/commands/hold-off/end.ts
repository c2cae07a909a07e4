import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withDatacenter, withReason } from '../../options.ts';
import { durationText } from '../../output/duration.ts';

/** `leasehold hold-off end`. */
export function addHoldOffEnd(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'end',
    'Allow new grants at once, because nobody acts on a lost grant any more',
  );
  withReason(withDatacenter(command), true).action(
    async ({ reason, datacenter }: { reason: string; datacenter?: string }) => {
      const answer = await cli.client().holdOff.end.mutate({ reason, datacenter });
      cli.show(answer, () =>
        answer.ended === null
          ? 'New grants are not held off: there is nothing to end.'
          : `New grants are allowed from now on, ${durationText(answer.ended.remainingMs)} early.`,
      );
    },
  );
}
