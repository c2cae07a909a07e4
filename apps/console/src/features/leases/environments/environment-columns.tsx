import { VisibleText } from '~/ui/text/visible-text.tsx';
import { endedAt, isTaken, type LeaseItem } from '../lease-item.ts';
import { column, type Column } from '~/ui/table/column.ts';
import { Under, RelativeTime } from '~/ui/text/text.tsx';
import { PhaseBadge } from '~/resources/looks.tsx';
import { Remaining } from '~/resources/remaining.tsx';
import { routes } from '~/lib/routes.ts';
import { CommentCell, HolderCell, NameCell } from '../lease-columns.tsx';
import classes from '../leases.module.css';

/** The last holder and the last action of a free environment are pale. */
const tone = (environment: LeaseItem): string => (isTaken(environment) ? '' : 'dimmed');

export const ENVIRONMENT_COLUMNS: Column<LeaseItem>[] = [
  column('Environment', { sort: 'name' }, (environment) => (
    <NameCell resource={environment} href={routes.environment(environment)} />
  )),
  column('Namespace', { from: 'md' }, (environment) => (
    <span title={environment.namespace}>
      <VisibleText>{environment.namespace || '–'}</VisibleText>
    </span>
  )),
  column('State', {}, (environment) => <PhaseBadge phase={environment.phase} />),
  column('By whom', { from: 'sm' }, (environment) => <HolderCell lease={environment} />),
  column('For', {}, (environment) => (
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
