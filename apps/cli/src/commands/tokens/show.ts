import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import type { TokenDetails } from '../../views.ts';
import { printable } from '../../output/printable.ts';
import { detailsText, tableText, type Column } from '../../output/table.ts';
import { tokenEndText } from './ls.ts';

type LimitUse = TokenDetails['fairUse'][number];

const LIMIT_COLUMNS: readonly Column<LimitUse>[] = [
  { head: 'limit', text: ({ limit }) => limit },
  { head: 'used', text: ({ used }) => (used === null ? '-' : String(used)), align: 'right' },
  { head: 'at most', text: ({ max }) => String(max), align: 'right' },
  { head: 'of', text: ({ isOwn }) => (isOwn ? 'the token' : 'its role') },
];

/** `leasehold tokens show`: what a token is bound to, and how much of its limits it uses. */
export function addTokensShow(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'show <token>', 'Show one token: its bindings, its limits and its use')
    .action(async (tokenId: string) => {
      const details = await cli.client().tokens.get.query({ tokenId });
      cli.show(details, () => tokenText(details));
    });
}

function tokenText({ token, fairUse }: TokenDetails): string {
  const about = detailsText([
    ['token', token.tokenId],
    ['name', printable(token.name)],
    ['role', token.role],
    ...(token.droneId === null ? [] : [['drone', printable(token.droneId)] as const]),
    ['namespaces', listText(token.namespaces)],
    ['programs', listText(token.programs)],
    ...(token.role === 'drone'
      ? ([
          ['capacity', token.capacity === null ? 'any' : String(token.capacity)],
          ['addresses', listText(token.addresses)],
        ] as const)
      : []),
    ['created', `${token.createdAt} by ${printable(token.createdBy)}`],
    ['last used', token.lastUsedAt ?? 'never'],
    ['ends', tokenEndText(token) || 'never'],
  ]);
  return `${about}\n\n${tableText(fairUse, LIMIT_COLUMNS)}`;
}

function listText(list: readonly string[] | null): string {
  return list?.map(printable).join(' ') ?? 'any';
}
