import { CloseButton, Progress, Skeleton } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Fragment, useState } from 'react';
import { resourceText } from '@leasehold/keys-core';
import { type Outputs, query } from '~/lib/api/api.ts';
import { absolute, countText } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { type ResourceRef, routeOf, routes } from '~/lib/routes.ts';
import { useWhyNot } from '~/lib/session.tsx';
import type { GrantFace } from '~/resources/grant-view.ts';
import { PlainTable } from '~/ui/page.tsx';
import { StaleScope } from '~/ui/stale.tsx';
import { ActFailure, ErrorState } from '~/ui/states.tsx';
import { Link, Mono, VisibleText } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
import {
  bulkProgressText,
  bulkTitle,
  failureText,
  isAllOver,
  isUnderWay,
  namesOfBulk,
  stoppingText,
  useBulkProgress,
} from './bulk.ts';
import classes from './bulk.module.css';

type BulkProgress = Outputs['bulk']['get'];

/** One bulk action: how far it is, what failed, and the way to end it. */
export function BulkPanel({
  face,
  bulkId,
  onClose,
}: {
  readonly face: GrantFace;
  readonly bulkId: string;
  readonly onClose: () => void;
}) {
  const read = useBulkProgress(bulkId);
  const abort = useApiMutation('bulk', 'abort');
  const whyNot = useWhyNot('operator', { isOfAll: true });
  if (read.data === undefined) {
    return read.isError ? (
      <section className={classes['panel']} aria-label="Bulk action">
        <div className={classes['head']}>
          <ErrorState read={read} what="the bulk action" />
          <ClosePanel onClose={onClose} />
        </div>
      </section>
    ) : null;
  }
  const progress = read.data;
  const isRunning = isUnderWay(progress);
  const isStopping = !isRunning && !isAllOver(progress);
  return (
    <section className={classes['panel']} aria-label="Bulk action">
      <div className={classes['head']}>
        <div>
          <strong>{bulkTitle(progress.action, face, progress.total)}</strong>
          {progress.mode === 'force' ? ' by force' : ''}
          {': '}
          <span role="status">
            {`${stateText(progress)} ${bulkProgressText(progress)}.`}
            {isStopping ? <Stopping face={face} progress={progress} /> : null}
          </span>
        </div>
        {isRunning ? (
          <GuardedButton
            variant="default"
            size="compact-xs"
            whyNot={whyNot}
            loading={abort.isPending}
            onClick={() => abort.mutate({ bulkId })}
          >
            Abort
          </GuardedButton>
        ) : (
          <ClosePanel onClose={onClose} />
        )}
      </div>
      {/* Over, nothing is read any more. */}
      {isRunning || isStopping ? <StaleScope read={read}>{null}</StaleScope> : null}
      <Progress
        size="sm"
        value={(progress.done / Math.max(1, progress.total)) * 100}
        aria-label="Carried out"
        animated={isRunning || isStopping}
      />
      <p className={classes['reason']}>
        <VisibleText>{`${progress.actor}: ${progress.reason}`}</VisibleText>
      </p>
      <ActFailure error={abort.error} />
      <Failures face={face} bulkId={bulkId} progress={progress} />
    </section>
  );
}

function ClosePanel({ onClose }: { readonly onClose: () => void }) {
  return <CloseButton size="sm" aria-label="Close the bulk action" onClick={onClose} />;
}

const STATES: Record<BulkProgress['state'], string> = {
  running: 'under way,',
  interrupted: 'interrupted: another controller takes it over;',
  aborted: 'aborted,',
  done: 'done,',
};

/** A revoke is done when what it has revoked has stopped. */
function stateText(progress: BulkProgress): string {
  return progress.state === 'done' && !isAllOver(progress) ? 'stopping,' : STATES[progress.state];
}

function Stopping({
  face,
  progress: { stopping, stopsBy },
}: {
  readonly face: GrantFace;
  readonly progress: BulkProgress;
}) {
  const nowMs = useDatabaseNow();
  if (stopsBy === null || nowMs === null) return null;
  return ` ${stoppingText(face, stopping, Math.max(0, Date.parse(stopsBy) - nowMs))}`;
}

/** The grants that failed, each with the reason and a link. */
function Failures({
  face,
  bulkId,
  progress: { failed, failedCount },
}: {
  readonly face: GrantFace;
  readonly bulkId: string;
  readonly progress: BulkProgress;
}) {
  const [names] = useState(() => namesOfBulk(bulkId));
  if (failed.length === 0) return null;
  return (
    <details className={classes['failures']} open>
      <summary>{`${countText(failedCount, 'item')} failed`}</summary>
      <ul>
        {failed.map(({ leaseId, code }) => (
          <li key={leaseId}>
            <FailedLink face={face} leaseId={leaseId} resource={names[leaseId]} />
            <span>{failureText(code)}</span>
          </li>
        ))}
        {failedCount > failed.length ? (
          <li>{`and ${countText(failedCount - failed.length, 'other')}`}</li>
        ) : null}
      </ul>
    </details>
  );
}

const LISTS = { key: routes.keys, lease: routes.leases, environment: routes.environments } as const;

function FailedLink({
  face,
  leaseId,
  resource,
}: {
  readonly face: GrantFace;
  readonly leaseId: string;
  readonly resource: ResourceRef | undefined;
}) {
  if (resource !== undefined) {
    return (
      <Link href={routeOf(face, resource)}>
        <VisibleText>{resourceText(resource)}</VisibleText>
      </Link>
    );
  }
  return (
    <Link href={LISTS[face]({ q: `lease:${leaseId}` })} className="mono">
      {leaseId}
    </Link>
  );
}

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
      {rest > 0 ? <p className="small-print">{`and ${countText(rest, 'other')}`}</p> : null}
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
