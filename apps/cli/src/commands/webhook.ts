import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { printable, printableOr } from '../output/printable.ts';
import { detailsText } from '../output/table.ts';
import type { WebhookView } from '../views.ts';

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
