import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { withDatacenter, withReason, type ActOptions } from '../options.ts';
import { durationText } from '../output/duration.ts';
import { holdOffText } from '../output/hold-off.ts';

/** `leasehold hold-off`. */
export function addHoldOff(cli: Cli, program: Command): void {
  const parent = program
    .command('hold-off')
    .description('Show or end the hold-off of new grants after a restore');
  withDatacenter(cli.leaf(parent, 'show', 'Show whether new grants are held off, and why')).action(
    async ({ datacenter }: ActOptions) => {
      const holdOff = await cli.client().holdOff.get.query({ datacenter });
      cli.show({ holdOff }, () =>
        holdOff === null ? 'New grants are not held off.' : holdOffText(holdOff),
      );
    },
  );
  const end = cli.leaf(
    parent,
    'end',
    'Allow new grants at once, because nobody acts on a lost grant any more',
  );
  withReason(withDatacenter(end), true).action(async (options: ActOptions & { reason: string }) => {
    const answer = await cli.client().holdOff.end.mutate(options);
    cli.show(answer, () =>
      answer.ended === null
        ? 'New grants are not held off: there is nothing to end.'
        : `New grants are allowed from now on, ${durationText(answer.ended.remainingMs)} early.`,
    );
  });
}
