'use client';

import type { KeyView } from '@leasehold/keys-core/keys';
import { column, type Column } from '~/ui/table/column.ts';
import { Link } from '~/ui/link.tsx';
import { Under } from '~/ui/text/under.tsx';
import { Mono } from '~/ui/text/mono.tsx';
import { PhaseBadge } from '~/resources/looks.tsx';
import { RelativeTime } from '~/ui/text/relative-time.tsx';
import { Remaining } from '~/resources/remaining.tsx';
import { routes } from '~/lib/routes.ts';

/** The columns of keys on the page of their drone. */
export const DRONE_KEY_COLUMNS: Column<KeyView>[] = [
  column('Key', {}, (key) => (
    <>
      <Link href={routes.key(key)}>{key.name}</Link>
      <Under upTo="sm">{key.namespace}</Under>
    </>
  )),
  column('Namespace', { from: 'sm' }, (key) => key.namespace),
  column('Phase', {}, (key) => <PhaseBadge phase={key.phase} />),
  column('Remaining', { from: 'sm' }, (key) => <Remaining {...key} />),
  column('Backend', { from: 'md' }, (key) =>
    key.backendId === null ? (
      '–'
    ) : (
      <Link href={routes.backend(key.backendId, key.datacenter)}>
        <Mono>{key.backendId}</Mono>
      </Link>
    ),
  ),
  column('Token', { from: 'lg', align: 'end' }, (key) => <Mono>{key.fencingToken}</Mono>),
  column('Granted', { from: 'md' }, (key) => <RelativeTime at={key.grantedAt} asOf={key.asOf} />),
];
