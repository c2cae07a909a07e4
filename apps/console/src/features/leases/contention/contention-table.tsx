import { type Face, resourceText } from '@leasehold/keys-core';
import type { ReactNode } from 'react';
import { count } from '~/lib/format.ts';
import { routeOf, routes } from '~/lib/routes.ts';
import { fieldText } from '~/lib/search.ts';
import { FACE_WORDS } from '~/resources/grant-view.ts';
import { LoadingRows } from '~/ui/table/table-rows.tsx';
import { Link, Mono, VisibleText } from '~/ui/text.tsx';
import { Waited } from '../waited.tsx';
import type { Line } from './contention-groups.ts';
import tableClasses from '~/ui/table/data-table.module.css';
import classes from './contention-table.module.css';

const COLUMN_COUNT = 3;

/** Lines one below the other: what is waited for and who has it, then who waits, in order. */
export function ContentionTable({
  lines,
  asOf,
  isLoading,
  onTouched,
  empty,
}: {
  readonly lines: readonly Line[];
  readonly asOf: string | undefined;
  readonly isLoading: boolean;
  readonly onTouched: (isTouched: boolean) => void;
  readonly empty: ReactNode;
}) {
  return (
    <div
      className={tableClasses['scroll']}
      tabIndex={0}
      role="region"
      aria-label="Who is waiting for whom"
      onPointerEnter={() => onTouched(true)}
      onPointerLeave={() => onTouched(false)}
    >
      <table
        className={`${tableClasses['table'] ?? ''} ${classes['table'] ?? ''}`}
        aria-busy={isLoading}
      >
        <thead>
          <tr>
            <th scope="col" className={classes['place']}>
              Place
            </th>
            <th scope="col">Waiter</th>
            <th scope="col" data-align="end">
              Waiting
            </th>
          </tr>
        </thead>
        {isLoading ? (
          <tbody>
            <LoadingRows columnCount={COLUMN_COUNT} />
          </tbody>
        ) : (
          lines.map((line) => <LineRows key={line.id} line={line} asOf={asOf ?? ''} />)
        )}
      </table>
      {!isLoading && lines.length === 0 ? empty : null}
    </div>
  );
}

function LineRows({ line, asOf }: { readonly line: Line; readonly asOf: string }) {
  return (
    <tbody>
      <tr className={classes['resource']}>
        <th scope="rowgroup" colSpan={COLUMN_COUNT}>
          <span className={classes['what']}>
            {line.face === 'lease' ? null : (
              <span className={classes['face']}>{FACE_WORDS[line.face][0]}</span>
            )}
            <Link href={routeOf(line.face, line)}>
              <VisibleText>{resourceText(line)}</VisibleText>
            </Link>
            <Holder line={line} asOf={asOf} />
            <span className={classes['count']}>
              {line.before === 0
                ? `${count(line.waiters.length)} waiting`
                : `${count(line.waiters.length)} waiting here, ${count(line.before)} before them`}
            </span>
          </span>
        </th>
      </tr>
      {line.waiters.map((waiter) => (
        <tr key={`${String(waiter.place)} ${waiter.waiter}`} data-row>
          <td className={classes['place']}>{waiter.place}</td>
          <td>
            <HolderLink face={line.face} name={waiter.waiter} />
          </td>
          <td data-align="end">
            <Waited since={waiter.since} asOf={asOf} />
          </td>
        </tr>
      ))}
    </tbody>
  );
}

/** To what somebody holds already. Who waits for a key gets it for a drone, and holds nothing by itself. */
function HolderLink({ face, name }: { readonly face: Face; readonly name: string }) {
  if (face === 'key') return <Mono>{name}</Mono>;
  const list = face === 'lease' ? routes.leases : routes.environments;
  return (
    <Link
      href={list({ q: fieldText('holder', name) })}
      title={`${face === 'lease' ? 'Leases' : 'Environments'} that ${name} holds`}
      className="mono"
    >
      <VisibleText>{name}</VisibleText>
    </Link>
  );
}

function Holder({ line, asOf }: { readonly line: Line; readonly asOf: string }) {
  if (line.holder === null) {
    return <span className={classes['nobody']}>held by nobody now</span>;
  }
  return (
    <span className={classes['holder']}>
      held by{' '}
      {line.face === 'key' ? (
        <Link href={routes.drone(line.holder, line.datacenter)} className="mono">
          {line.holder}
        </Link>
      ) : (
        <HolderLink face={line.face} name={line.holder} />
      )}
      {line.heldSince === null ? null : (
        <>
          {' '}
          for <Waited since={line.heldSince} asOf={asOf} />
        </>
      )}
    </span>
  );
}
