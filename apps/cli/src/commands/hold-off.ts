import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { confirmed, withConfirmation, type ConfirmedOptions } from '../confirmation.ts';
import { withDatacenter, withReason, type ActOptions } from '../options.ts';
import { durationText } from '../output/duration.ts';
import { endRiskText, holdOffText } from '../output/hold-off.ts';

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
  addEnd(cli, parent);
}

function addEnd(cli: Cli, parent: Command): void {
  const end = cli.leaf(
    parent,
    'end',
    'Allow new grants at once, because nobody acts on a lost grant any more',
  );
  withConfirmation(withReason(withDatacenter(end), true)).action(
    async ({ reason, datacenter, yes }: ActOptions & ConfirmedOptions & { reason: string }) => {
      const { holdOff } = cli.client();
      const seen = await holdOff.get.query({ datacenter });
      if (seen === null) {
        const none = { ended: null, remaining: null };
        cli.show(none, () => 'New grants are not held off: there is nothing to end.');
        return;
      }
      confirmed({ yes }, `${holdOffText(seen)}\n${endRiskText(seen)}`);
      // Only the one that was confirmed: after another restore there is another one.
      const { epoch } = seen;
      const answer = await holdOff.end.mutate({ reason, epoch, datacenter });
      const { ended, remaining } = answer;
      cli.show(answer, () => {
        if (ended !== null) {
          return `New grants are allowed from now on, ${durationText(ended.remainingMs)} early.`;
        }
        return remaining === null
          ? 'New grants are not held off any more: there was nothing to end.'
          : `That hold-off has ended, and there is another one. ${holdOffText(remaining)}`;
      });
    },
  );
}
