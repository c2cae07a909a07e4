'use client';

import { UnstyledButton } from '@mantine/core';
import type { ColumnDef } from '@tanstack/react-table';
import { Link } from '~/ui/link.tsx';
import { Under } from '~/ui/text/under.tsx';
import { LongName } from '~/ui/text/long-name.tsx';
import { Mono } from '~/ui/text/mono.tsx';
import { RelativeTime } from '~/ui/text/relative-time.tsx';
import classes from './audit.module.css';
import { auditTarget, modeOf, type AuditEntry } from './audit-target.ts';

/** `show` opens everything that an entry says. */
export function auditColumns(show: (entry: AuditEntry) => void): ColumnDef<AuditEntry>[] {
  return [
    {
      id: 'action',
      header: 'Action',
      cell: ({ row: { original: entry } }) => (
        <>
          <UnstyledButton
            className={classes['action'] ?? ''}
            aria-haspopup="dialog"
            onClick={() => show(entry)}
          >
            <Mono>{entry.action}</Mono>
            <Mode entry={entry} />
          </UnstyledButton>
          <Under upTo="lg">
            <RelativeTime at={entry.at} />
          </Under>
        </>
      ),
    },
    {
      id: 'target',
      header: 'On',
      cell: ({ row: { original: entry } }) => (
        <>
          <Target entry={entry} />
          <Under upTo="sm">{entry.actor}</Under>
        </>
      ),
    },
    {
      id: 'reason',
      header: 'Why',
      meta: { from: 'md', isFilling: true },
      cell: ({ row: { original: entry } }) =>
        entry.reason === null ? (
          '–'
        ) : (
          <span className={classes['reason']} title={entry.reason}>
            {entry.reason}
          </span>
        ),
    },
    {
      id: 'actor',
      header: 'Who',
      meta: { from: 'sm' },
      cell: ({ row }) => row.original.actor,
    },
    {
      id: 'source',
      header: 'From where',
      meta: { from: 'xl' },
      cell: ({ row }) => <Mono>{row.original.source ?? '–'}</Mono>,
    },
    {
      id: 'at',
      header: 'When',
      meta: { from: 'lg' },
      cell: ({ row }) => <RelativeTime at={row.original.at} />,
    },
  ];
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
