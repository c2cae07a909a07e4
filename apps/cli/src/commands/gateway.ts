import type { Command } from 'commander';
import { addGatewayRun } from '../apps.ts';
import type { Cli } from '../cli.ts';
import type { GatewayView } from '../controller-api.ts';
import { usageFailure } from '../failures.ts';
import {
  missingText,
  pageText,
  requireConfirmation,
  type ConfirmedOptions,
  withConfirmation,
  withNamespace,
  withReason,
} from '../options.ts';
import { type Column, printable } from '../output/text.ts';

/** `leasehold gateway`. */
export function addGateway(cli: Cli, program: Command): void {
  const parent = program
    .command('gateway')
    .description(
      'Run a gateway, list gateways, and end the access of people who come through them',
    );
  addGatewayRun(cli, parent);
  addLs(cli, parent);
  addRevoke(cli, parent);
  addRotate(cli, parent);
}

const COLUMNS: readonly Column<GatewayView>[] = [
  { head: 'gateway', text: ({ gatewayId }) => gatewayId },
  { head: 'state', text: ({ isAlive }) => (isAlive ? 'alive' : 'silent') },
  { head: 'connections', text: ({ connections }) => String(connections), align: 'right' },
  { head: 'routes', text: ({ routes }) => String(routes), align: 'right' },
  { head: 'requests', text: ({ requests }) => String(requests), align: 'right' },
  { head: 'version', text: ({ version }) => printable(version) },
  { head: 'seen', text: ({ seenAt }) => seenAt },
];

function addLs(cli: Cli, parent: Command): void {
  cli.leaf(parent, 'ls', 'List the gateways that report').action(async () => {
    const answer = await cli.client().gateway.list.query();
    const { url } = answer;
    const where = url === null ? 'The controllers know no address of one.' : `At ${url}.`;
    const page = { ...answer, nextCursor: null };
    cli.show(page, () => {
      const rows = pageText(page, {
        empty: 'No gateway reports.',
        columns: COLUMNS,
        format: 'table',
      });
      return `${rows}\n\n${where}`;
    });
  });
}

interface RevokeOptions {
  readonly namespace: string;
  readonly key?: string;
  readonly user?: string;
  readonly grant?: string;
  readonly reason: string;
}

function addRevoke(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'revoke',
    'End the access that was given until now: of a user, to a key, to a grant',
  );
  withReason(withNamespace(command), true)
    .option('--user <name>', 'the user')
    .option('--key <name>', 'the key')
    .option('--grant <lease>', 'the id of the only grant that the access was given to')
    .action(async ({ namespace, key, user, grant, reason }: RevokeOptions) => {
      if ([key, user, grant].every((value) => value === undefined)) {
        throw usageFailure('Give a --user, a --key or a --grant.');
      }
      const input = { namespace, name: key, user, leaseId: grant, reason };
      const answer = await cli.client().gateway.revoke.mutate(input);
      cli.show(
        answer,
        () =>
          `Access that was given until ${answer.revokedAt} has ended, within a second.${missingText(answer.unreachable)}`,
      );
    });
}

function addRotate(cli: Cli, parent: Command): void {
  const command = cli
    .leaf(parent, 'rotate', 'Sign new tokens with a new key; older tokens work until they expire')
    .option('--now', 'end all older tokens at once');
  withConfirmation(withReason(command, true)).action(
    async ({ now = false, reason, yes }: ConfirmedOptions & { now?: boolean; reason: string }) => {
      if (now) {
        requireConfirmation({ yes }, 'Everybody who uses a gateway loses the connection.');
      }
      const answer = await cli.client().gateway.rotate.mutate({ now, reason });
      cli.show(answer, () => `New tokens are signed with the key ${answer.kid}.`);
    },
  );
}
