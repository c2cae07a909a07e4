import { UnstyledButton } from '@mantine/core';
import { actionLabel, type AuditEntry, auditTarget, modeOf } from '~/resources/audit.ts';
import { PersonLink } from '~/resources/looks.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { Link, LongName, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import classes from './audit.module.css';

/** `show` opens everything that an entry says. */
export function auditColumns(show: (entry: AuditEntry) => void): Column<AuditEntry>[] {
  return [
    column('Action', {}, (entry) => (
      <>
        <UnstyledButton
          className={classes['action'] ?? ''}
          aria-haspopup="dialog"
          onClick={() => show(entry)}
        >
          <span title={entry.action}>{actionLabel(entry.action)}</span>
          <Mode entry={entry} />
        </UnstyledButton>
        <Under upTo="lg">
          <RelativeTime at={entry.at} />
        </Under>
      </>
    )),
    column('Resource', {}, (entry) => (
      <>
        <Target entry={entry} />
        <Under upTo="sm">
          <PersonLink name={entry.actor} />
        </Under>
        {entry.reason === null ? null : (
          <Under upTo="md">
            <Reason reason={entry.reason} />
          </Under>
        )}
      </>
    )),
    column('Reason', { from: 'md', isFilling: true }, (entry) =>
      entry.reason === null ? '–' : <Reason reason={entry.reason} />,
    ),
    column('By', { from: 'sm' }, (entry) => <PersonLink name={entry.actor} />),
    column('Address', { from: 'xl' }, (entry) => <Mono>{entry.source ?? '–'}</Mono>),
    column('Time', { from: 'lg' }, (entry) => <RelativeTime at={entry.at} />),
  ];
}

function Reason({ reason }: { readonly reason: string }) {
  return (
    <span className={classes['reason']} title={reason}>
      <VisibleText>{reason}</VisibleText>
    </span>
  );
}

function Mode({ entry }: { readonly entry: AuditEntry }) {
  const mode = modeOf(entry);
  return mode === undefined ? null : <span className={classes['mode']}>{mode}</span>;
}

/** What an act was done to, as a link where there is a page of it. */
export function Target({ entry }: { readonly entry: AuditEntry }) {
  const { kind, label, href } = auditTarget(entry);
  return (
    <>
      <span className={classes['kind']}>{kind}</span>{' '}
      {href === null ? (
        <Mono>{label}</Mono>
      ) : (
        <Link href={href}>
          <LongName>{label}</LongName>
        </Link>
      )}
    </>
  );
}
