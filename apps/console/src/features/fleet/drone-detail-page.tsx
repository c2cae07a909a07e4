'use client';

import { Progress, SegmentedControl } from '@mantine/core';
import { useState } from 'react';
import { BACKEND_SORTS, bytesText, percentText } from '@leasehold/keys-core';
import type { KeyView } from '@leasehold/keys-core/keys';
import { choiceParam, textParam, useQueryStates } from '~/lib/address.ts';
import { count, countText, duration } from '~/lib/format.ts';
import { usePage, useSort } from '~/lib/list-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at, routes } from '~/lib/routes.ts';
import { keyBackendLook } from '~/resources/backend-looks.ts';
import { DRONE_LOOKS, PhaseBadge, Remaining } from '~/resources/looks.tsx';
import { DetailPage, DetailTabs } from '~/ui/detail-page.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { Facts, FilterRow, Panel, PlainTable } from '~/ui/page.tsx';
import { usePageActs } from '~/ui/shell/palette-store.ts';
import { EmptyState, Notice } from '~/ui/states.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { CopyableId, Link, LookBadge, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
import { backendColumns } from './backends.tsx';
import {
  type Drone,
  DRONE_ACTS,
  droneNotice,
  FleetNotAllowed,
  Heartbeat,
  isolationFacts,
  LoadBar,
  roundTrip,
  useDroneWhyNot,
  useFleetWhyNot,
} from './drones.tsx';
import type { DroneActRequest } from './fleet-dialogs.tsx';
import classes from './fleet.module.css';

const DroneActDialog = lazyDialog('request', () =>
  import('./fleet-dialogs.tsx').then((module) => module.DroneActDialog),
);

/** Heartbeats make no events. */
const EVERY_MS = 2_000;

/** One machine: whether it reports, what it can run, and what it runs. */
export function DroneDetailPage(of: OfDrone) {
  const whyNot = useFleetWhyNot();
  return whyNot === undefined ? <OneDrone {...of} /> : <FleetNotAllowed whyNot={whyNot} />;
}

function OneDrone({ droneId, datacenter }: OfDrone) {
  const input = { droneId, ...at(datacenter) };
  const read = useLiveQuery('drones', 'get', input, { everyMs: EVERY_MS });
  return (
    <DetailPage
      title={droneId}
      eyebrow={<Link href={routes.drones()}>Drones</Link>}
      what="the drone"
      read={read}
      missingCode="drone.not_found"
      missing={
        <EmptyState title="No such drone">
          No drone with this id has registered in this datacenter.
        </EmptyState>
      }
      meta={({ status }) => <LookBadge look={DRONE_LOOKS[status]} />}
      asOf={({ asOf }) => asOf}
      actions={(drone) => <DroneButtons drone={drone} />}
    >
      {(drone) => (
        <>
          <DroneNotice drone={drone} />
          <div className={classes['pair']}>
            <Panel title="Facts">
              <DroneFacts drone={drone} />
            </Panel>
            <ProgramsPanel {...drone} />
          </div>
          <DroneTabs droneId={droneId} datacenter={datacenter} />
        </>
      )}
    </DetailPage>
  );
}

function DroneNotice({ drone }: { readonly drone: Drone }) {
  const notice = droneNotice(drone);
  const most = useMostBackends(drone);
  if (notice === undefined) return null;
  const isProgress = drone.status === 'draining' && most > 0;
  return (
    <Notice
      tone={notice.tone}
      action={
        isProgress && (
          <Progress
            {...{ value: (1 - drone.backendCount / most) * 100, w: '8rem', maw: '30%', size: 'sm' }}
            aria-label={`${String(most - drone.backendCount)} of ${String(most)} backends have ended`}
          />
        )
      }
    >
      {notice.text}
    </Notice>
  );
}

/** The most backends that the drone has had while this page has shown it draining. */
function useMostBackends({ status, backendCount }: Drone): number {
  const [most, setMost] = useState(0);
  const next = status === 'draining' ? Math.max(most, backendCount) : 0;
  if (next !== most) setMost(next);
  return next;
}

function DroneFacts({ drone }: { readonly drone: Drone }) {
  return (
    <Facts
      items={{
        Backends: <LoadBar {...drone} />,
        CPU:
          drone.machine === null
            ? null
            : `${percentText(drone.machine.cpuShare)} of ${countText(drone.machine.processors, 'processor')}`,
        Memory: usedText(drone.machine?.memoryUsedBytes, drone.machine?.memoryBytes),
        Disk: usedText(drone.machine?.diskUsedBytes, drone.machine?.diskBytes),
        'Last heartbeat': <Heartbeat drone={drone} />,
        'Heartbeat round trip':
          drone.roundTripMs === null ? (
            'not measured yet'
          ) : (
            <Mono>{roundTrip(drone.roundTripMs)}</Mono>
          ),
        ...Object.fromEntries(isolationFacts(drone.isolation)),
        'Warm processes': warmText(drone.warm),
        'Container engine': drone.engine === null ? null : (drone.engine.problem ?? 'answers'),
        Datacenter: drone.datacenter,
        Version: <Mono>{drone.version}</Mono>,
        Registered: <RelativeTime at={drone.registeredAt} asOf={drone.asOf} />,
        Session: `${String(drone.session)}, ${drone.isConnected ? 'connected' : 'not connected'}`,
        Clock: <CopyableId id={drone.clockId} label="clock id" isShort />,
        Stopped:
          drone.stoppedAt === null ? null : <RelativeTime at={drone.stoppedAt} asOf={drone.asOf} />,
        'Marked lost':
          drone.lostAt === null ? null : <RelativeTime at={drone.lostAt} asOf={drone.asOf} />,
      }}
    />
  );
}

/** Null where the drone keeps none. */
function warmText(warm: Drone['warm']): string | null {
  if (warm.length === 0) return null;
  const texts = warm.map(({ program, count, wanted, problem }) => {
    const text = `${program}: ${count === wanted ? '' : `${String(count)} of `}${String(wanted)} warm`;
    return problem === null ? text : `${text} (${problem})`;
  });
  return texts.join(', ');
}

/** Null where it is not known. */
function usedText(used: number | undefined, all: number | undefined): string | null {
  if (used === undefined || all === undefined || all === 0) return null;
  return `${percentText(used / all)}, ${bytesText(used)} of ${bytesText(all)}`;
}

function DroneButtons({ drone }: { readonly drone: Drone }) {
  const [request, setRequest] = useState<DroneActRequest | null>(null);
  const whyNot = useDroneWhyNot();
  usePageActs(
    DRONE_ACTS.map(({ act, label, icon }) => ({
      label: `${label} ${drone.droneId}`,
      icon,
      whyNot: whyNot(act, drone),
      run: () => setRequest({ act, drone }),
    })),
  );
  return (
    <>
      {DRONE_ACTS.map(({ act, label }) => (
        <GuardedButton
          key={act}
          variant="default"
          whyNot={whyNot(act, drone)}
          onClick={() => setRequest({ act, drone })}
        >
          {label}
        </GuardedButton>
      ))}
      <DroneActDialog request={request} onClose={() => setRequest(null)} />
    </>
  );
}

function ImageName({ image }: { readonly image: string }) {
  return (
    <>
      container of <Mono>{image}</Mono>
    </>
  );
}

/** What a drone can run, and what a request may pass to it. */
function ProgramsPanel({ programs, programBackends }: Pick<Drone, 'programs' | 'programBackends'>) {
  return (
    <Panel title="Programs" isFlush>
      <PlainTable
        label="What it can run"
        heads={[
          { text: 'Program' },
          { text: 'Backends' },
          { text: 'Runs as' },
          { text: 'Accepts arguments' },
          { text: 'Accepts variables' },
          { text: 'Lives at most' },
          { text: 'Stops when unused' },
        ]}
      >
        {programs.map(({ name, image, allowArgs, allowEnv, ...times }) => (
          <tr key={name}>
            <td>
              <span style={{ whiteSpace: 'nowrap' }}>
                <Mono>{name}</Mono>
              </span>
            </td>
            <td>{count(programBackends[name] ?? 0)}</td>
            <td>{image === undefined ? 'command' : <ImageName image={image} />}</td>
            <td>{allowArgs ? 'yes' : 'no'}</td>
            <td>{allowEnv.length === 0 ? 'no' : <Mono>{allowEnv.join(', ')}</Mono>}</td>
            <td>{timeText(times.lifetimeLimitSeconds, 'any time')}</td>
            <td>{timeText(times.idleStopSeconds, 'never')}</td>
          </tr>
        ))}
      </PlainTable>
    </Panel>
  );
}

const SECOND_MS = 1_000;

function timeText(seconds: number | undefined, otherwise: string): string {
  return seconds === undefined ? otherwise : duration(seconds * SECOND_MS);
}

const SHOWN = ['running', 'all'] as const;
const TABS_EVERY_MS = 3_000;

/** The drone that the page shows. */
interface OfDrone {
  readonly droneId: string;
  /** The drone's datacenter; if empty, this controller's. */
  readonly datacenter: string;
}

function DroneTabs(of: OfDrone) {
  return (
    <DetailTabs
      tabs={[
        { value: 'backends', label: 'Backends', panel: <Backends {...of} /> },
        { value: 'keys', label: 'Keys', panel: <Keys {...of} /> },
      ]}
    />
  );
}

const COLUMNS = backendColumns({ isOfDrone: true });
/** A running backend has no end to show. */
const RUNNING_COLUMNS = COLUMNS.filter(({ header }) => header !== 'Ended because');

function Backends({ droneId, datacenter }: OfDrone) {
  const { page, state } = usePage();
  const [{ show }, setAddress] = useQueryStates({
    show: choiceParam(SHOWN).withDefault('running'),
    after: textParam,
  });
  const live = show === 'running' || undefined;
  const sorted = useSort(BACKEND_SORTS, 'desc');
  const input = { droneId, live, ...at(datacenter), ...page, ...sorted.input };
  const read = useLiveQuery('backends', 'list', input, { everyMs: TABS_EVERY_MS });
  return (
    <>
      <FilterRow>
        <SegmentedControl
          aria-label="Which backends"
          value={show}
          data={[
            { value: 'running', label: 'Running' },
            { value: 'all', label: 'Also ended' },
          ]}
          onChange={(value) => setAddress({ show: value, after: null })}
        />
      </FilterRow>
      <DataTable
        label="backends of this drone"
        columns={show === 'running' ? RUNNING_COLUMNS : COLUMNS}
        read={read}
        rowId={(backend) => backend.backendId}
        state={{ ...state, ...sorted.table }}
        identity={JSON.stringify(input)}
        empty={
          <EmptyState title={show === 'running' ? 'No running backends' : 'No backends yet'}>
            A backend starts here when a caller connects to a free key and this drone has room.
          </EmptyState>
        }
      />
    </>
  );
}

function Keys({ droneId, datacenter }: OfDrone) {
  const { page, state } = usePage();
  const input = { droneId, ...at(datacenter), ...page };
  const read = useLiveQuery('keys', 'list', input, { everyMs: TABS_EVERY_MS });
  return (
    <DataTable
      label="keys of this drone"
      columns={DRONE_KEY_COLUMNS}
      read={read}
      rowId={(key) => key.leaseId}
      state={state}
      identity={JSON.stringify(input)}
      empty={
        <EmptyState title="No keys held">
          A drone holds a key while the key’s backend runs on it.
        </EmptyState>
      }
    />
  );
}

/** The columns of keys on the page of their drone. */
const DRONE_KEY_COLUMNS: Column<KeyView>[] = [
  column('Key', {}, (key) => (
    <>
      <Link href={routes.key(key)}>
        <VisibleText>{key.name}</VisibleText>
      </Link>
      <Under upTo="sm">
        <VisibleText>{key.namespace}</VisibleText>
      </Under>
    </>
  )),
  column('Namespace', { from: 'sm' }, (key) => <VisibleText>{key.namespace}</VisibleText>),
  column('Phase', {}, (key) => (
    <>
      <PhaseBadge phase={key.phase} />
      <Under upTo="md">
        <BackendState item={key} />
      </Under>
    </>
  )),
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
  column('Status', { from: 'md' }, (key) => <BackendState item={key} />),
  column('Token', { from: 'lg', align: 'end' }, (key) => <Mono>{key.fencingToken}</Mono>),
  column('Granted', { from: 'md' }, (key) => <RelativeTime at={key.grantedAt} asOf={key.asOf} />),
];

function BackendState({ item }: { readonly item: KeyView }) {
  const look = keyBackendLook(item);
  return look === undefined ? null : (
    <LookBadge look={look} isPlain={item.backendEnd?.hasFailed !== true} />
  );
}
