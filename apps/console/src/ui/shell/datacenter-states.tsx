import {
  IconAlertTriangle,
  IconBuildingOff,
  IconCircleCheck,
  IconPlugConnectedX,
} from '@tabler/icons-react';
import { absolute } from '~/lib/format.ts';
import {
  useDatacenters,
  type Datacenter,
  type GivenUpDatacenter,
} from '~/lib/datacenters/use-datacenters.ts';
import classes from './datacenter-states.module.css';

/** The datacenters and whether each can be reached; if there is only one, its name. */
export function DatacenterStates() {
  const { here, items, isSeveral, store, givenUp } = useDatacenters();
  if (!isSeveral) {
    return (
      <>
        datacenter <span className="mono">{here}</span>
      </>
    );
  }
  return (
    <>
      <span id="datacenters">Datacenters</span>
      <ul className={classes['list']} aria-labelledby="datacenters">
        {items
          .filter(({ name }) => givenUp.every(({ datacenter }) => datacenter !== name))
          .map((datacenter) => (
            <State key={datacenter.name} datacenter={datacenter} />
          ))}
        {givenUp.map((lost) => (
          <li key={lost.datacenter} className={classes['away']} title={givenUpText(lost)}>
            <IconBuildingOff size={13} aria-hidden />
            <span className="mono">{lost.datacenter}</span> given up
            <span hidden>{givenUpText(lost)}</span>
          </li>
        ))}
        {store?.isReachable === false ? (
          <li className={classes['away']} title={sinceText(store.since)}>
            <IconAlertTriangle size={13} aria-hidden />
            the reservation store cannot be reached
          </li>
        ) : null}
      </ul>
    </>
  );
}

function State({ datacenter }: { readonly datacenter: Datacenter }) {
  const { name, isLocal, isReachable, since, code, roundTripMs } = datacenter;
  if (!isReachable) {
    return (
      <li className={classes['away']} title={sinceText(since)}>
        <IconPlugConnectedX size={13} aria-hidden />
        <span className="mono">{name}</span>{' '}
        {code === 'peer.refused' ? 'refuses this datacenter’s credentials' : 'unreachable'}
      </li>
    );
  }
  const trip = roundTripMs === null ? 'reachable' : tripText(roundTripMs);
  return (
    <li>
      <IconCircleCheck size={13} aria-hidden />
      <span className="mono">{name}</span> {isLocal ? 'this one' : trip}
    </li>
  );
}

function givenUpText({ declaredAt, declaredBy, reason, opened }: GivenUpDatacenter): string {
  const keys = opened === null ? 'its keys wait' : 'its keys get other homes';
  return `by ${declaredBy} at ${absolute(declaredAt)}: ${reason}; ${keys}`;
}

function tripText(roundTripMs: number): string {
  return roundTripMs < 1 ? '< 1 ms' : `${String(Math.round(roundTripMs))} ms`;
}

function sinceText(since: string | null): string {
  return since === null ? 'not reached yet' : `since ${absolute(since)}`;
}
