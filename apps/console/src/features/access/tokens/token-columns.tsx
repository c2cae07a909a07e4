import { ROLE_LABELS } from '~/lib/auth.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { routes } from '~/lib/routes.ts';
import { RowMenu } from '~/ui/menus.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { Link, LookBadge, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import { TOKEN_LOOKS } from '../looks.ts';
import { revokeProblem, type Token, tokenState } from './token-state.ts';

/** What the menu of a row opens. */
interface TokenActs {
  readonly show: (token: Token) => void;
  readonly revoke: (token: Token) => void;
}

export function tokenColumns(acts: TokenActs): Column<Token>[] {
  return [
    column('Name', {}, (token) => (
      <>
        <strong>
          <VisibleText>{token.name}</VisibleText>
        </strong>
        <Under upTo="sm">{ROLE_LABELS[token.role]}</Under>
      </>
    )),
    column('State', {}, (token) => <TokenBadge token={token} />),
    column('Role', { from: 'sm' }, (token) => ROLE_LABELS[token.role]),
    column('Limits', { from: 'md' }, (token) => <Limits token={token} />),
    column('Last used', { from: 'sm' }, (token) =>
      token.lastUsedAt === null ? 'never' : <RelativeTime at={token.lastUsedAt} />,
    ),
    column('Expires', { from: 'lg' }, (token) =>
      token.expiresAt === null ? 'never' : <RelativeTime at={token.expiresAt} />,
    ),
    column('Created', { from: 'xl' }, (token) => (
      <>
        <RelativeTime at={token.createdAt} /> by {token.createdBy}
      </>
    )),
    column('Actions', { isHeadHidden: true, align: 'end' }, (token) => (
      <TokenMenu token={token} acts={acts} />
    )),
  ];
}

function useTokenState(token: Token) {
  const nowMs = useDatabaseNow();
  return tokenState(token, nowMs ?? Date.parse(token.createdAt));
}

function TokenBadge({ token }: { readonly token: Token }) {
  return <LookBadge look={TOKEN_LOOKS[useTokenState(token)]} />;
}

function TokenMenu({ token, acts }: { readonly token: Token; readonly acts: TokenActs }) {
  const state = useTokenState(token);
  return (
    <RowMenu
      of={token.name}
      acts={[
        {
          label: 'Show limits',
          whyNot: undefined,
          onClick: () => acts.show(token),
        },
        {
          label: 'Revoke',
          whyNot: revokeProblem(state),
          isDangerous: true,
          onClick: () => acts.revoke(token),
        },
      ]}
    />
  );
}

function Limits({ token: { namespaces, droneId } }: { readonly token: Token }) {
  if (droneId !== null) return <Link href={routes.drone(droneId)}>{droneId}</Link>;
  return namespaces === null ? 'no limit' : <Mono>{namespaces.join(', ')}</Mono>;
}
