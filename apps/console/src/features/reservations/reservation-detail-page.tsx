'use client';

import { Skeleton } from '@mantine/core';
import { IconRoute } from '@tabler/icons-react';
import type { UseQueryResult } from '@tanstack/react-query';
import { useState } from 'react';
import { keyNameOf } from '@leasehold/keys-core';
import { textParam, useQueryState } from '~/lib/address.ts';
import type { ApiError, Outputs } from '~/lib/api/api.ts';
import { useDatacenters } from '~/lib/datacenters.ts';
import { countText } from '~/lib/format.ts';
import { useApiMutation, useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at, routes } from '~/lib/routes.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { isInForce } from '~/resources/grant-view.ts';
import { PhaseBadge, Remaining } from '~/resources/looks.tsx';
import { keyLabel, keyOfAddress } from '~/resources/names.ts';
import { DetailPage, WayBack } from '~/ui/detail-page.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { Facts, PageHeader, Panel } from '~/ui/page.tsx';
import { usePageActs } from '~/ui/shell/palette-store.ts';
import { StaleScope } from '~/ui/stale.tsx';
import { ActFailure, EmptyState, Notice } from '~/ui/states.tsx';
import { Link, LookBadge, Mono, RelativeTime } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
import { ChainDrawing, ChainList, KeyText, RESERVATION_LOOKS } from './chain.tsx';
import { failureText } from './move-progress.ts';
import type { MoveDialogProps } from './reservation-dialogs.tsx';
import type { ReservationDetail } from './reservation-search.ts';
import classes from './reservations.module.css';

/** Moves have no event. */
const EVERY_MS = 1_500;

/** The page of the key in the address. */
export function ReservationDetailPage() {
  const [text] = useQueryState('key', textParam.withDefault(''));
  const addressed = keyOfAddress(text);
  if ('problem' in addressed) {
    return (
      <>
        <PageHeader
          title="Reservation"
          eyebrow={<Link href={routes.reservations()}>Reservations</Link>}
        />
        <EmptyState title="No such key">{addressed.problem}</EmptyState>
      </>
    );
  }
  return <Detail key={text} of={addressed.key} />;
}

function Detail({ of }: { readonly of: readonly string[] }) {
  const named = keyNameOf(of);
  const namespace = named?.namespace ?? '';
  const { items } = useDatacenters();
  const read = useLiveQuery('reservations', 'get', { key: [...of] }, { everyMs: EVERY_MS });
  const home = read.data?.datacenter;
  const grant = useLiveQuery(
    'keys',
    'get',
    { ...(named ?? { namespace: '', name: '-' }), ...at(home) },
    { everyMs: EVERY_MS, enabled: named !== undefined && home !== undefined },
  );
  return (
    <DetailPage
      title={<KeyText of={of} />}
      eyebrow={<WayBack label="Reservations" list={routes.reservations} namespace={namespace} />}
      what="the reservation"
      read={read}
      missing={<NotReserved of={of} />}
      meta={(reservation) => <Home reservation={reservation} />}
      actions={(reservation) => <MoveButton reservation={reservation} grant={grant.data} />}
    >
      {(reservation) => (
        <>
          <HomeNotice reservation={reservation} />
          <PendingMove reservation={reservation} />
          <div className={classes['pair']}>
            <Panel title="Chain" meta={<MovedTimes links={reservation.links} />}>
              <ChainDrawing links={reservation.links} datacenters={items.map(({ name }) => name)} />
              <ChainList links={reservation.links} />
            </Panel>
            <HolderPanel
              of={of}
              unreachable={
                isSilent(reservation.links.at(-1)?.state) ? reservation.datacenter : undefined
              }
              read={grant}
            />
          </div>
        </>
      )}
    </DetailPage>
  );
}

/** Whether nobody answers in the datacenter of a reservation. */
function isSilent(state: ReservationDetail['links'][number]['state'] | undefined): boolean {
  return state === 'unreachable' || state === 'given_up';
}

/** The home of the key, and its state. */
function Home({ reservation: { links, datacenter } }: { readonly reservation: ReservationDetail }) {
  const state = links.at(-1)?.state;
  return (
    <>
      {state === undefined ? null : <LookBadge look={RESERVATION_LOOKS[state]} />}
      <span>
        in <span className="mono">{datacenter}</span>
      </span>
    </>
  );
}

function MovedTimes({ links }: { readonly links: readonly unknown[] }) {
  return (
    <span className="dimmed">
      {links.length === 1 ? 'not moved' : `moved ${countText(links.length - 1, 'time')}`}
    </span>
  );
}

/** What the state of the home means, unless the key simply lives there. */
function HomeNotice({
  reservation: { links, datacenter },
}: {
  readonly reservation: ReservationDetail;
}) {
  const state = links.at(-1)?.state;
  if (state === 'unreachable') {
    return (
      <Notice tone="warn">
        {datacenter} cannot be reached from here. The key stays there, and that datacenter serves
        its holder. It cannot be connected to or moved from here until then.
      </Notice>
    );
  }
  if (state === 'given_up') {
    return (
      <Notice tone="warn">
        {datacenter} was given up. The next connect gives the key a home where it starts a backend;{' '}
        <span className="mono">leasehold reservations move</span> chooses another one.
      </Notice>
    );
  }
  if (state === 'pending') {
    return (
      <Notice tone="info">
        {links.length === 1
          ? `The home of the key is to be ${datacenter}. The first connect makes it active there.`
          : `The key has left ${links.at(-2)?.datacenter ?? ''} and is not active in ${datacenter} yet. The next connect completes the move, or the same move once more. The controllers complete a move that was requested here.`}
      </Notice>
    );
  }
  return null;
}

function NotReserved({ of }: { readonly of: readonly string[] }) {
  return (
    <EmptyState title="Not reserved">
      Nobody has connected to <span className="mono">{keyLabel(of)}</span> yet, or reserved it. Its
      home will be where the first connect starts its backend.
    </EmptyState>
  );
}

const MoveDialog = lazyDialog('isOpen', () =>
  import('./reservation-dialogs.tsx').then((module) => module.MoveDialog),
);

/** Moves the key, or says why it cannot be moved now. */
function MoveButton({ reservation, grant }: Pick<MoveDialogProps, 'reservation' | 'grant'>) {
  const [isOpen, setOpen] = useState(false);
  const roleWhyNot = useWhyNot('operator');
  const { isSeveral } = useDatacenters();
  const whyNot = roleWhyNot ?? whyNotMovable(reservation, isSeveral);
  const run = (): void => setOpen(true);
  usePageActs([{ label: `Move ${keyLabel(reservation.key)}`, icon: IconRoute, whyNot, run }]);
  return (
    <>
      <GuardedButton whyNot={whyNot} leftSection={<IconRoute size={14} />} onClick={run}>
        Move
      </GuardedButton>
      <MoveDialog
        reservation={reservation}
        grant={grant}
        isOpen={isOpen}
        onClose={() => setOpen(false)}
      />
    </>
  );
}

function whyNotMovable(
  { links, datacenter }: ReservationDetail,
  isSeveral: boolean,
): string | undefined {
  if (!isSeveral) return 'There is only one datacenter. Add others with LEASEHOLD_PEERS.';
  const state = links.at(-1)?.state;
  if (state === 'given_up') {
    return `${datacenter} was given up. Use the command \`leasehold reservations move\`.`;
  }
  return state === 'unreachable'
    ? `${datacenter} cannot be reached, and a key can leave only while its home can be reached.`
    : undefined;
}

type Grant = NonNullable<Outputs['keys']['get']>;

/** Who holds the key in its home, with a link to its page. */
function HolderPanel({
  of,
  unreachable,
  read,
}: {
  readonly of: readonly string[];
  /** The home of the key, if it cannot be reached now. */
  readonly unreachable: string | undefined;
  readonly read: UseQueryResult<Outputs['keys']['get'], ApiError>;
}) {
  const grant = read.data;
  return (
    <Panel title="Holder" meta={grant ? <PhaseBadge phase={grant.phase} /> : undefined}>
      {keyNameOf(of) === undefined ? (
        <p className={classes['text']}>
          This list names no key of Leasehold: nothing is granted under it. Its owner only uses its
          home.
        </p>
      ) : grant && !isOnlyMoved(grant) ? (
        <StaleScope read={read}>
          <HolderFacts grant={grant} />
        </StaleScope>
      ) : unreachable === undefined && read.isPending ? (
        <Skeleton height={110} aria-busy="true" />
      ) : (
        <p className={classes['text']}>{holderText(unreachable, read.error)}</p>
      )}
    </Panel>
  );
}

/** Whether only a move has made the row: its holder is not a drone. */
function isOnlyMoved(grant: Grant): boolean {
  return grant.droneId === null && !isInForce(grant);
}

function holderText(unreachable: string | undefined, error: ApiError | null): string {
  if (unreachable !== undefined) return `Unknown while ${unreachable} cannot be reached.`;
  return error === null ? 'Nobody has held it there yet.' : `Unknown: ${error.message}`;
}

function HolderFacts({ grant }: { readonly grant: Grant }) {
  const isHeld = isInForce(grant);
  const { droneId, datacenter, holder } = grant;
  return (
    <Facts
      items={{
        Key: <Link href={routes.key(grant)}>deadlines, history, actions</Link>,
        [isHeld ? 'Held by drone' : 'Last held by']:
          droneId === null ? (
            <Mono>{holder}</Mono>
          ) : (
            <Link href={routes.drone(droneId, datacenter)} className="mono">
              {droneId}
            </Link>
          ),
        Remaining: isHeld ? <Remaining {...grant} /> : null,
        Granted: <RelativeTime at={grant.grantedAt} asOf={grant.asOf} />,
        'Fencing token': <Mono>{grant.fencingToken}</Mono>,
        Datacenter: <Mono>{datacenter}</Mono>,
      }}
    />
  );
}

const PENDING_EVERY_MS = 1_500;

/** The requested move, and the way to cancel it; nothing without one. */
function PendingMove({ reservation }: { readonly reservation: ReservationDetail }) {
  const { key, reservationId, datacenter, links } = reservation;
  const ref = { key: [...key], reservationId, ...at(datacenter) };
  const whyNot = useWhyNot('operator');
  const cancel = useApiMutation('reservations', 'cancelMove');
  const { data: move } = useLiveQuery('reservations', 'pendingMove', ref, {
    everyMs: PENDING_EVERY_MS,
    enabled: links.at(-1)?.state === 'active',
  });
  if (move === undefined || move === null) return null;
  const { toDatacenter, askedBy, heldBy, failure } = move;
  if (failure !== null) {
    return (
      <Notice tone="info">
        {askedBy} asked for it to be moved to {toDatacenter}. {failureText(failure)}
      </Notice>
    );
  }
  return (
    <Notice tone="info">
      {askedBy} asked for it to be moved to {toDatacenter}.{' '}
      {heldBy === null ? 'It moves now.' : `It moves when ${heldBy.holder} no longer holds it.`}{' '}
      <GuardedButton
        size="compact-xs"
        whyNot={whyNot}
        loading={cancel.isPending}
        onClick={() => cancel.mutate(ref)}
      >
        Cancel the move
      </GuardedButton>
      <ActFailure error={cancel.error} />
    </Notice>
  );
}
