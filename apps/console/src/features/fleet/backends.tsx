import { BACKEND_STATUSES, type BackendStatus, bytesText, percentText } from '@leasehold/keys-core';
import type { Inputs, Outputs } from '~/lib/api/api.ts';
import { routes } from '~/lib/routes.ts';
import type { Search } from '~/lib/search.ts';
import { backendLook, endOf, failureLabel } from '~/resources/backend-looks.ts';
import { type Column, column } from '~/ui/table/column.ts';
import { Link, LookBadge, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';

/** `isOfDrone`: on the page of a drone, where the drone is not repeated. */
export function backendColumns({ isOfDrone = false } = {}): Column<Backend>[] {
  return [
    column('Backend', {}, (backend) => (
      <>
        <Link href={routes.backend(backend.backendId, backend.datacenter)}>
          <Mono>{backend.backendId}</Mono>
        </Link>
        <Under upTo="sm">
          <VisibleText>{backend.key.name}</VisibleText>
        </Under>
      </>
    )),
    column('Status', {}, (backend) => <LookBadge look={backendLook(backend)} />),
    column('Key', { from: 'sm' }, (backend) => (
      <Link href={routes.key({ ...backend.key, datacenter: backend.datacenter })}>
        <VisibleText>{backend.key.name}</VisibleText>
      </Link>
    )),
    column('Namespace', { from: 'xl' }, (backend) => (
      <VisibleText>{backend.key.namespace}</VisibleText>
    )),
    column('Program', { from: 'lg' }, (backend) => (
      <span title={kindOf(backend)}>{backend.program}</span>
    )),
    ...(isOfDrone ? [] : [DRONE]),
    column('CPU', { from: 'lg', align: 'end', sort: 'cpu' }, ({ usage }) =>
      usage?.cpus == null ? '–' : percentText(usage.cpus),
    ),
    column('Memory', { from: 'md', align: 'end', sort: 'memory' }, ({ usage }) =>
      usage === null ? '–' : bytesText(usage.memoryBytes),
    ),
    column('Ended because', { from: 'md', isFilling: true }, (backend) => {
      const end = endOf(backend);
      const hasFailed = failureLabel(backend) !== undefined;
      return (
        <span title={end} data-bad={hasFailed || undefined}>
          {end ?? '–'}
        </span>
      );
    }),
    column('Started', { from: 'sm', sort: 'created' }, (backend) => (
      <RelativeTime at={backend.createdAt} />
    )),
  ];
}

const DRONE: Column<Backend> = column('Drone', { from: 'md' }, (backend) => (
  <Link href={routes.drone(backend.droneId, backend.datacenter)}>{backend.droneId}</Link>
));

/** A backend as the API returns it. */
export type Backend = Outputs['backends']['list']['items'][number];
/** With every state that it was in. */
export type BackendWithStates = Outputs['backends']['get'];
export type BackendState = BackendWithStates['states'][number];

/** What a backend does in a status, for people who do not know the word. */
export const STATUS_TEXTS: Record<BackendStatus, string> = {
  scheduled: 'Its drone has been told to start it.',
  loading: 'The drone makes it ready to start, and pulls its image if it is a container.',
  starting: 'Its process is being started.',
  waiting: 'It runs, and has not reported yet that it is ready.',
  ready: 'It accepts requests.',
  terminating: 'It has been asked to stop.',
  hard_terminating: 'It is being killed.',
  terminated: 'It has ended, and its key was released.',
};

/** Why a backend cannot be stopped in its present status; undefined when it can. */
export function terminateProblem(status: BackendStatus): string | undefined {
  if (status === 'terminated') return 'It has ended already.';
  return status === 'hard_terminating' ? 'It is being killed already.' : undefined;
}

/** What became of asking to stop a backend. */
export function stoppedText(
  outcome: Outputs['backends']['terminate']['outcome'],
  isForced: boolean,
): string {
  if (outcome === 'gone') return 'It had ended before: nothing was stopped.';
  return `Its drone has been told to stop it${isForced ? ' by force' : ''}.`;
}

/** What kind of program a backend runs. */
export function kindOf({ image }: Pick<Backend, 'image'>): string {
  return image === null ? 'a command of the machine' : `a container of ${image}`;
}

/** One state of a backend, and for how long it was in it. */
export interface StateStep {
  readonly state: BackendState;
  /** Null for the last state of a backend that has ended: that state has no end. */
  readonly durationMs: number | null;
  /** Whether the backend is in this state now. */
  readonly isPresent: boolean;
}

/** The states in the order in which they were reported, each with its duration. Pure. */
export function stateSteps(states: readonly BackendState[], nowMs: number): StateStep[] {
  return states.map((state, index) => {
    const next = states[index + 1];
    const isLast = next === undefined;
    const isEnd = isLast && state.status === 'terminated';
    const untilMs = isLast ? nowMs : Date.parse(next.at);
    return {
      state,
      durationMs: isEnd ? null : Math.max(0, untilMs - Date.parse(state.at)),
      isPresent: isLast && !isEnd,
    };
  });
}

const PAGE_ROWS = 100;

/** The fields of the backends' search, beside the whole name of a key. */
export const BACKEND_FIELDS = ['drone', 'program', 'namespace', 'key'] as const;

/** The filters of the backends, as the address has them. */
interface BackendsWanted {
  readonly search: Search;
  readonly status: string | null;
  readonly live: boolean;
  readonly after: string | null;
}

export function statusOf(text: string | null): BackendStatus | null {
  return BACKEND_STATUSES.find((known) => known === text) ?? null;
}

/** The input of `backends.list`. Backends are found by whole names only, so a bare word is a whole name. */
export function backendListInput(wanted: BackendsWanted): NonNullable<Inputs['backends']['list']> {
  const { search, after, live } = wanted;
  const { drone, program, namespace, key } = search.fields;
  return {
    limit: PAGE_ROWS,
    cursor: after ?? undefined,
    droneId: drone,
    program,
    namespace,
    name: key ?? search.name ?? search.contains,
    status: statusOf(wanted.status) ?? undefined,
    live: live || undefined,
  };
}
