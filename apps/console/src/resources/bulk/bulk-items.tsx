import { resourceText } from '@leasehold/keys-core';
import { Skeleton } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Fragment } from 'react';
import { type Outputs, query } from '~/lib/api/api.ts';
import { absolute, counted } from '~/lib/format.ts';
import { routeOf } from '~/lib/routes.ts';
import { PlainTable } from '~/ui/page.tsx';
import { ErrorState } from '~/ui/states.tsx';
import { Link, Mono, VisibleText } from '~/ui/text.tsx';
import { failureText } from './bulk-texts.ts';
import classes from './bulk.module.css';

/** Nobody reads more rows than this. */
const SHOWN = 200;

type Item = Outputs['bulk']['items']['items'][number];

/** The grants of a bulk action, with what was done to each. */
export function BulkItems({ bulkId, total }: { readonly bulkId: string; readonly total: number }) {
  const read = useQuery(query('bulk', 'items', { bulkId, limit: SHOWN }));
  if (read.data === undefined) {
    return read.isError ? (
      <ErrorState read={read} what="its grants" />
    ) : (
      <Skeleton height={120} aria-busy="true" />
    );
  }
  const rest = total - read.data.items.length;
  return (
    <div className={classes['items']}>
      <PlainTable label="What was done" heads={[{ text: 'Resource' }, { text: 'Outcome' }]}>
        {read.data.items.map((item) => (
          <tr key={item.place}>
            <td>
              <Name item={item} />
            </td>
            <td>{outcomeOf(item)}</td>
          </tr>
        ))}
      </PlainTable>
      {rest > 0 ? <p className="small-print">{`and ${counted(rest, 'other')}`}</p> : null}
    </div>
  );
}

function Name({ item: { face, namespace, name, leaseId } }: { readonly item: Item }) {
  if (face === null || namespace === null || name === null) return <Mono>{leaseId}</Mono>;
  const ref = { namespace, name };
  return (
    <Link href={routeOf(face, ref)}>
      <VisibleText>{resourceText(ref)}</VisibleText>
    </Link>
  );
}

function outcomeOf({ doneAt, code }: Item) {
  if (doneAt === null) return 'not done';
  return (
    <Fragment>
      {code === null ? 'done' : failureText(code)}, <Mono>{absolute(doneAt)}</Mono>
    </Fragment>
  );
}
