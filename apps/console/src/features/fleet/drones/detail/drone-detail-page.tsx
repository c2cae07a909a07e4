'use client';

import { bytesText, percentText } from '@leasehold/keys-core';
import { Progress } from '@mantine/core';
import { useState } from 'react';
import { count, counted } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at, routes } from '~/lib/routes.ts';
import { DRONE_LOOKS } from '~/resources/looks.tsx';
import { DetailPage } from '~/ui/detail-page.tsx';
import { lazyDialog } from '~/ui/lazy-dialog.tsx';
import { Facts, Panel, PlainTable } from '~/ui/page.tsx';
import { usePageActs } from '~/ui/shell/palette-store.ts';
import { EmptyState, Notice } from '~/ui/states.tsx';
import { CopyableId, Link, LookBadge, Mono, RelativeTime } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
import type { DroneActRequest } from '../drone-act-dialog.tsx';
import { type Drone, droneNotice, isolationFacts, roundTrip } from '../drone-texts.ts';
import { Heartbeat } from '../heartbeat.tsx';
import { LoadBar } from '../load-bar.tsx';
import { DRONE_ACTS, useDroneWhyNot } from '../use-drone-acts.ts';
import { DroneTabs } from './drone-tabs.tsx';
import classes from './drone-detail-page.module.css';

const DroneActDialog = lazyDialog('request', () =>
  import('../drone-act-dialog.tsx').then((module) => module.DroneActDialog),
);

/** Heartbeats make no events. */
const EVERY_MS = 2_000;

/** One machine: whether it reports, what it can run, and what it runs. */
export function DroneDetailPage({
  droneId,
  datacenter,
}: {
  readonly droneId: string;
  /** The drone's datacenter; if empty, this controller's. */
  readonly datacenter: string;
}) {
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
            : `${percentText(drone.machine.cpuShare)} of ${counted(drone.machine.processors, 'processor')}`,
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
      ...{ label: `${label} ${drone.droneId}`, icon, whyNot: whyNot(act, drone) },
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
        ]}
      >
        {programs.map(({ name, image, allowArgs, allowEnv }) => (
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
          </tr>
        ))}
      </PlainTable>
    </Panel>
  );
}
