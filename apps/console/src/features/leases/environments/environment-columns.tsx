import { routes } from '~/lib/routes.ts';
import { PhaseBadge, Remaining } from '~/resources/looks.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import { CommentCell, HolderCell, NameCell, NamespaceCell } from '../lease-columns.tsx';
import { endedAt, isTaken, type LeaseItem } from '../lease-item.ts';
import classes from '../leases.module.css';

/** The last holder and the last action of a free environment are pale. */
const tone = (environment: LeaseItem): string => (isTaken(environment) ? '' : 'dimmed');

export const ENVIRONMENT_COLUMNS: Column<LeaseItem>[] = [
  column('Namespace', { sort: 'name', from: 'md' }, (environment) => (
    <NamespaceCell resource={environment} />
  )),
  column('Environment', { sort: 'name' }, (environment) => (
    <>
      <NameCell resource={environment} href={routes.environment(environment)} />
      <Under upTo="sm">
        <HolderCell lease={environment} />
      </Under>
    </>
  )),
  column('State', {}, (environment) => <PhaseBadge phase={environment.phase} />),
  column('Holder', { from: 'sm' }, (environment) => <HolderCell lease={environment} />),
  column('Action', {}, (environment) => (
    <>
      <span
        className={`${classes['action'] ?? ''} mono ${tone(environment)}`}
        dir="auto"
        title={environment.action ?? ''}
      >
        <VisibleText>{environment.action ?? '–'}</VisibleText>
      </span>
      {isTaken(environment) ? (
        <Under upTo="sm">
          <HolderCell lease={environment} />
        </Under>
      ) : null}
    </>
  )),
  column('Since', { sort: 'grantedAt', from: 'sm' }, (environment) => {
    const at = isTaken(environment) ? environment.grantedAt : endedAt(environment);
    return at === null ? '–' : <RelativeTime at={at} asOf={environment.asOf} />;
  }),
  column('Remaining', { sort: 'expiresAt', from: 'md' }, (environment) => (
    <Remaining {...environment} />
  )),
  column('Comment', { from: 'lg', isFilling: true }, (environment) => (
    <CommentCell lease={environment} />
  )),
];
