import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withReason } from '../../options.ts';

/** `leasehold tokens revoke`. */
export function addTokensRevoke(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'revoke <token>',
    'Revoke a token, and close the connections it opened',
  );
  withReason(command, false).action(async (tokenId: string, { reason }: { reason?: string }) => {
    const answer = await cli.client().tokens.revoke.mutate({ tokenId, reason });
    cli.show(answer, () =>
      answer.changed ? `${tokenId} is revoked.` : `Nothing changed: ${tokenId} was not valid.`,
    );
  });
}
