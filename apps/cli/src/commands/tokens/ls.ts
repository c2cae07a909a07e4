import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import type { TokenView } from '../../views.ts';
import { moreText, withPage, type PageOptions } from '../../options.ts';
import { printable } from '../../output/printable.ts';
import { tableText, type Column } from '../../output/table.ts';

const COLUMNS: readonly Column<TokenView>[] = [
  { head: 'token', text: (token) => token.tokenId },
  { head: 'name', text: (token) => printable(token.name) },
  { head: 'role', text: (token) => token.role },
  {
    head: 'limited to',
    text: (token) => token.droneId ?? token.namespaces?.map(printable).join(' ') ?? '',
  },
  { head: 'created', text: (token) => token.createdAt },
  { head: 'last used', text: (token) => token.lastUsedAt ?? 'never' },
  { head: 'ends', text: (token) => tokenEndText(token) },
];

/** `leasehold tokens ls`. */
export function addTokensLs(cli: Cli, parent: Command): void {
  withPage(cli.leaf(parent, 'ls', 'List tokens, without their secrets')).action(
    async ({ limit, cursor }: PageOptions) => {
      const page = await cli.client().tokens.list.query({ limit, cursor });
      cli.show(page, () =>
        page.items.length === 0
          ? 'No tokens.'
          : `${tableText(page.items, COLUMNS)}${moreText(page.nextCursor)}`,
      );
    },
  );
}

/** When a token ends, or has ended; nothing for one that has no end. */
export function tokenEndText(token: Pick<TokenView, 'revokedAt' | 'expiresAt'>): string {
  if (token.revokedAt !== null) return `revoked ${token.revokedAt}`;
  return token.expiresAt ?? '';
}
