import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import type { WebhookView } from '../controller-api.ts';
import {
  confirmed,
  withConfirmation,
  withDatacenter,
  withReason,
  type ActOptions,
  type ConfirmedOptions,
} from '../options.ts';
import { endRiskText, holdOffText } from '../output/grant-text.ts';
import { detailsText, durationText, printable, printableOr } from '../output/text.ts';

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

/** `leasehold webhook`. */
export function addWebhook(cli: Cli, program: Command): void {
  const parent = program
    .command('webhook')
    .description('Show or test the address that is told of alarms and of the audit');
  cli
    .leaf(parent, 'show', 'Show what the webhook was told, and how its last message failed')
    .action(async () => {
      const webhook = await cli.client().webhook.get.query();
      cli.show({ webhook }, () =>
        webhook === null ? 'No webhook is set: see LEASEHOLD_WEBHOOK_URL.' : webhookText(webhook),
      );
    });
  cli.leaf(parent, 'test', 'Send a message to the webhook now').action(async () => {
    const answer = await cli.client().webhook.test.mutate();
    cli.show(answer, () => 'The webhook took the message.');
  });
}

function webhookText({
  origin,
  format,
  actions,
  alarms,
  tries,
  lastError,
  sentAt,
}: WebhookView): string {
  return detailsText([
    ['address', printable(origin)],
    ['format', format],
    ['audit', actions.length === 0 ? 'nothing of the audit is sent' : actions.join(', ')],
    ['last message', sentAt ?? 'none yet'],
    ['failures of the next', String(tries)],
    ['last error', printableOr(lastError ?? '')],
    ...alarms.map((alarm) => ['alarm', printable(alarm)] as const),
  ]);
}
