import type { ClockJumpView } from '@leasehold/api/contract';
import {
  type ControllerApi,
  createControllerClient,
  type LeaseholdError,
  leaseholdErrorOf,
} from '@leasehold/client';
import { isFullyIsolated, sayFailure } from '@leasehold/keys-core';
import { failuresText, NotAController } from '@leasehold/service-kit/controllers';
import type { Access } from '../contexts.ts';
import type { DroneView, GatewaysView, KeyView } from '../controller-api.ts';
import { failureOf } from '../failures.ts';
import { holdOffText } from '../output/grant-text.ts';
import { agoText, durationText, printable } from '../output/text.ts';
import { type Scope, scopeText } from '../scope.ts';

const READY_TIMEOUT_MS = 5_000;
const DRONES_A_PAGE = 500;

/** Each controller, the token that is used with them, and the drones that report to them. */
export async function examineController({ urls, token, from }: Access): Promise<Finding[]> {
  const controllers = await Promise.all(urls.map(readinessFinding));
  if (controllers.every(({ state }) => state === 'wrong')) return controllers;
  const connection = createControllerClient({ url: urls, token, transport: 'http' });
  try {
    const drones = await droneFindings(connection.api, from.token);
    const isAnswered = drones[0]?.state === 'well';
    if (!isAnswered) return [...controllers, ...drones];
    const { api } = connection;
    return [
      ...controllers,
      ...(await holdOffFindings(api)),
      ...(await clockFindings(api)),
      ...drones,
      ...(await crashLoopFindings(api)),
      ...(await gatewayFindings(api)),
      ...(await peerFindings(api)),
    ];
  } finally {
    await connection.close();
  }
}

async function readinessFinding(url: string): Promise<Finding> {
  try {
    const response = await fetch(`${url}/readyz`, {
      signal: AbortSignal.timeout(READY_TIMEOUT_MS),
    });
    if (response.ok) return well('controller', `${url} is ready`);
    if (response.status !== NOT_READY) {
      const failures = new Map([[url, new NotAController(response.status)]]);
      return unreached('controller', failuresText(failures), WRONG_ADDRESS);
    }
    return wrong(
      'controller',
      `${url} answers, and is not ready (${String(response.status)})`,
      'It cannot use its database; its log has the reason.',
    );
  } catch (error) {
    const isLate = error instanceof Error && error.name === 'TimeoutError';
    const text = isLate
      ? `${url} does not answer in ${String(READY_TIMEOUT_MS)} ms`
      : failuresText(new Map([[url, error]]));
    return unreached('controller', text, NOBODY_THERE);
  }
}

const NOT_READY = 503;
const WRONG_ADDRESS = 'Correct the address: by default `http://HOST:4600`.';
const NOBODY_THERE =
  'Is it running, and can this machine reach it? `leasehold up` starts one here; otherwise see its log.';

async function holdOffFindings(api: ControllerApi): Promise<Finding[]> {
  const holdOff = await api.holdOff.get.query({});
  if (holdOff === null) return [];
  return [
    wrong(
      'grants',
      holdOffText(holdOff),
      'It ends by itself. If nobody still acts on a grant from before the restore: `leasehold hold-off end --reason TEXT`.',
    ),
  ];
}

/** Statistics are for readers of every namespace: others are not told of the clock. */
async function clockFindings(api: ControllerApi): Promise<Finding[]> {
  const overview = await api.stats.overview.query({}).catch((error: unknown) => {
    if (leaseholdErrorOf(error)?.code === 'auth.forbidden') return { clockJump: null };
    throw error;
  });
  const { clockJump } = overview;
  if (clockJump === null) return [];
  const { remainingMs } = clockJump;
  const text = clockJumpText(clockJump);
  const hint =
    'Find out what stepped the clock, such as a hypervisor or a time service: it must be slewed. See the runbook.';
  return [
    remainingMs > 0 ? wrong('database clock', text, hint) : unsure('database clock', text, hint),
  ];
}

/** The token, each drone, and what they offer together. The first says whether the controller answers this token. */
export async function droneFindings(api: ControllerApi, tokenFrom: string): Promise<Finding[]> {
  let drones: readonly DroneView[];
  try {
    drones = await allDrones(api);
  } catch (error) {
    const answered = leaseholdErrorOf(error);
    if (answered === undefined) throw error;
    return refusalFindings(answered, tokenFrom);
  }
  const token = tokenInForce(tokenFrom);
  if (drones.length === 0) {
    return [
      token,
      wrong('drones', 'none has ever registered', 'Start one: `leasehold drone --config FILE`.'),
    ];
  }
  const findings = drones.flatMap((drone) => [
    droneFinding(drone),
    ...isolationFindings(drone),
    ...engineFindings(drone),
  ]);
  const offered = new Set(drones.filter((drone) => drone.status === 'ready').flatMap(programNames));
  return [
    token,
    ...findings,
    offered.size === 0
      ? wrong(
          'programs',
          'no drone that takes new backends offers one',
          'See the drones above, and their configuration.',
        )
      : well('programs', [...offered].sort().join(', ')),
  ];
}

function tokenInForce(tokenFrom: string): Finding {
  return well('token', `of ${tokenFrom}: is in force`);
}

/** Why the drones were not told: because of the token, or of the controller. */
function refusalFindings(
  { code, message, incidentId, details }: LeaseholdError,
  tokenFrom: string,
): Finding[] {
  const isOfRole = code === 'auth.forbidden' && 'needed' in details;
  if (code === 'auth.forbidden' && !isOfRole) {
    return [
      tokenInForce(tokenFrom),
      skipped('drones', 'the token is limited to namespaces, and drones are of all'),
    ];
  }
  if (code === 'auth.required' || isOfRole) {
    const advice = `It is from ${tokenFrom}. It must be a valid token, of role viewer or higher.`;
    return [wrong('token', message, advice)];
  }
  const advice =
    incidentId === null
      ? 'Try again in a moment.'
      : `Its log has the reason, with the incident ${printable(incidentId)}.`;
  return [wrong('controller', `it refuses to list its drones: ${message}`, advice)];
}

async function allDrones(api: ControllerApi): Promise<DroneView[]> {
  const drones: DroneView[] = [];
  let cursor: string | undefined;
  do {
    const page = await api.drones.list.query({ limit: DRONES_A_PAGE, cursor });
    drones.push(...page.items);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return drones;
}

async function gatewayFindings(api: ControllerApi): Promise<Finding[]> {
  const gateways = await api.gateway.list.query();
  const { url } = gateways;
  return [...reportFindings(gateways), ...(url === null ? [] : [await gatewayAddressFinding(url)])];
}

/** One that reports has the keys of tokens and the clock of the database from the answer. */
export function reportFindings({ url, items, asOf }: GatewaysView): Finding[] {
  const alive = items.filter(({ isAlive }) => isAlive);
  if (alive.length === 0 && url !== null) {
    return [
      wrong(
        'gateway',
        'none reports',
        'Start one: `leasehold gateway run`. Its log has the reason.',
      ),
    ];
  }
  if (items.length === 0) return [skipped('gateway', 'the controllers know no address of one')];
  return items.map(({ gatewayId, isAlive, seenAt, connections, routes }) => {
    const subject = `gateway ${printable(gatewayId)}`;
    const text = `last report ${agoText(seenAt, asOf)}`;
    return isAlive
      ? well(subject, `${text}; ${String(connections)} connections, ${String(routes)} routes`)
      : unsure(subject, text, 'If it should run: look at its log. It is forgotten after a day.');
  });
}

/** What a gateway alone answers to a request without a token. */
const GATEWAY_ANSWER = '"gateway.token_required"';

/** Whether the address that browsers use leads to a gateway. */
export async function gatewayAddressFinding(url: string): Promise<Finding> {
  const subject = 'gateway address';
  const advice =
    'Compare LEASEHOLD_GATEWAY_URL of the controllers and of the gateway, and what is in front of it.';
  try {
    const response = await fetch(`${url}/k/_/doctor/`, {
      signal: AbortSignal.timeout(READY_TIMEOUT_MS),
      redirect: 'manual',
    });
    const isGateway = (await response.text()).includes(GATEWAY_ANSWER);
    return isGateway
      ? well(subject, `${url} leads to a gateway`)
      : wrong(subject, `${url} answers, but not as a gateway (${String(response.status)})`, advice);
  } catch (error) {
    return wrong(subject, failureOf(error, { urls: [url] }).message, advice);
  }
}

/** The other datacenters and their store, as the controller sees them. */
async function peerFindings(api: ControllerApi): Promise<Finding[]> {
  const { items, store } = await api.datacenters.list.query({});
  const others = items.filter(({ isLocal }) => !isLocal);
  const sinceText = (since: string | null): string => (since === null ? '' : ` since ${since}`);
  const stores =
    store.kind === 'postgres' || store.isReachable
      ? []
      : [
          wrong(
            'reservations',
            `the controller cannot reach etcd${sinceText(store.since)}`,
            'Keys whose home is known still work; no new key gets one. See the runbook.',
          ),
        ];
  return [
    ...stores,
    ...others.map(({ name, isReachable, since, code, roundTripMs }) =>
      isReachable
        ? well(
            `datacenter ${name}`,
            `the controller reaches it${roundTripMs === null ? '' : ` in ${roundTripMs.toFixed(1)} ms`}`,
          )
        : wrong(
            `datacenter ${name}`,
            `the controller does not reach it${sinceText(since)} (${code ?? 'not tried yet'})`,
            'Its keys are served there, but not from here. See the runbook.',
          ),
    ),
  ];
}

/** Failures that are older are no loop any more: see `key-failures.ts`. */
const LOOP_MINUTES = 10;
const LOOP_EVENTS_A_PAGE = 200;
const LOOP_PAGES_MAX = 10;
/** How many of their keys are looked at, and so many at once. */
const KEYS_LOOKED_AT_MAX = 100;
const KEYS_AT_ONCE = 10;
/** How many of them are named. */
const LOOPS_SHOWN_MAX = 10;
const LIST_LOOPS = '`leasehold events ls --kind crash_loop` lists them.';

/** Keys whose backends fail one after another: each connect starts another one, which fails too. */
export async function crashLoopFindings(api: ControllerApi): Promise<Finding[]> {
  const { named, isWhole } = await keysThatFailed(api);
  const failing = await failingKeys(api, named.slice(0, KEYS_LOOKED_AT_MAX));
  const shown = failing.slice(0, LOOPS_SHOWN_MAX);
  const findings = await Promise.all(shown.map((key) => crashLoopFinding(api, key)));
  const left = failing.length - shown.length;
  if (left > 0) {
    const text = `${String(left)} more have failed again and again`;
    findings.push(wrong('keys', text, LIST_LOOPS));
  }
  // They may have recovered.
  if (named.length > KEYS_LOOKED_AT_MAX || !isWhole) {
    const text = `not all that have failed within ${String(LOOP_MINUTES)} minutes were looked at`;
    findings.push(unsure('keys', text, LIST_LOOPS));
  }
  return findings;
}

/** Each once. Many events of other kinds make a page short, not the last one. */
async function keysThatFailed(
  api: ControllerApi,
): Promise<{ readonly named: readonly Scope[]; readonly isWhole: boolean }> {
  const named = new Map<string, Scope>();
  let cursor: string | undefined;
  for (let pages = 0; pages < LOOP_PAGES_MAX; pages += 1) {
    const { items, nextCursor } = await api.events.list.query({
      kinds: ['crash_loop'],
      windowMinutes: LOOP_MINUTES,
      limit: LOOP_EVENTS_A_PAGE,
      cursor,
    });
    for (const { namespace, name } of items) {
      named.set(JSON.stringify([namespace, name]), { namespace, name });
    }
    cursor = nextCursor ?? undefined;
    if (cursor === undefined) break;
  }
  return { named: [...named.values()], isWhole: cursor === undefined };
}

interface FailingKey extends Scope {
  readonly failing: NonNullable<KeyView['failing']>;
}

/** Without those that have recovered, or were allowed to start at once. */
async function failingKeys(api: ControllerApi, named: readonly Scope[]): Promise<FailingKey[]> {
  const found: FailingKey[] = [];
  for (let at = 0; at < named.length; at += KEYS_AT_ONCE) {
    const some = named.slice(at, at + KEYS_AT_ONCE);
    const keys = await Promise.all(some.map((scope) => api.keys.get.query(scope)));
    keys.forEach((key, index) => {
      const scope = some[index];
      if (scope === undefined || key?.failing == null || key.backendStatus === 'ready') return;
      found.push({ ...scope, failing: key.failing });
    });
  }
  return found;
}

async function crashLoopFinding(
  api: ControllerApi,
  { failing, ...named }: FailingKey,
): Promise<Finding> {
  const { failures, since, backendId } = failing;
  const backend = await api.backends.get.query({ backendId }).catch((error: unknown) => {
    if (leaseholdErrorOf(error)?.code === 'backend.not_found') return undefined;
    throw error;
  });
  const program = backend === undefined ? '' : ` of ${printable(backend.program)}`;
  return wrong(
    `key ${scopeText(named)}`,
    `${String(failures)} backends${program} have failed one after another since ${since}; the last one: ${sayFailure(failing)}`,
    `\`leasehold backends logs ${backendId}\` shows its last lines.`,
  );
}

function programNames(drone: DroneView): string[] {
  return drone.programs.map((program) => program.name);
}

function droneFinding(drone: DroneView): Finding {
  const subject = `drone ${printable(drone.droneId)}`;
  const age = drone.heartbeatAgeMs === null ? 'never' : `${durationText(drone.heartbeatAgeMs)} ago`;
  const heard = `last heartbeat ${age}`;
  switch (drone.status) {
    case 'ready':
      return drone.backendCount >= drone.capacity
        ? unsure(
            subject,
            `${heard}; full: ${String(drone.backendCount)} backends`,
            'Add a drone, or raise its capacity.',
          )
        : well(
            subject,
            `${heard}; ${String(drone.backendCount)} of ${String(drone.capacity)} backends`,
          );
    case 'draining':
      return unsure(
        subject,
        `${heard}; takes no new backends`,
        drone.stoppedAt === null
          ? '`leasehold drones undrain` undoes that.'
          : 'It was told to stop, and ends when its backends have.',
      );
    case 'stopped':
      return skipped(
        subject,
        `stopped ${agoText(drone.stoppedAt, drone.asOf)}; takes backends again when it is started`,
      );
    case 'unreachable':
      return wrong(
        subject,
        `${heard}: three heartbeats are missing`,
        'Look at its machine and its log. If the machine is gone: `leasehold drones mark-lost`.',
      );
    case 'lost':
      return unsure(
        subject,
        `${heard}; marked as lost`,
        'Its keys expire. When it is back: `leasehold drones undrain`.',
      );
  }
}

/** What a machine does not provide to keep programs from the drone. Lost and stopped drones are left out. */
export function isolationFindings({
  droneId,
  status,
  isolation,
}: Pick<DroneView, 'droneId' | 'status' | 'isolation'>): Finding[] {
  const subject = `isolation of ${printable(droneId)}`;
  if (status === 'lost' || status === 'stopped') return [];
  if (isolation === null) {
    return [unsure(subject, 'the drone does not report it', 'Upgrade the drone.')];
  }
  if (isFullyIsolated(isolation)) return [];
  const { user, privateProc, hiddenHome, detail } = isolation;
  if (user === 'shared' && !(privateProc && hiddenHome)) {
    return [
      wrong(
        subject,
        `its programs can read its token; ${printable(detail)}`,
        'Run it as root, or where user namespaces are allowed. See docs/operate/isolation.md.',
      ),
    ];
  }
  return [unsure(subject, printable(detail), 'See docs/operate/isolation.md.')];
}

/** Whether a drone with programs that are containers reaches its engine. Lost and stopped drones are left out. */
export function engineFindings({
  droneId,
  status,
  programs,
  engine,
}: Pick<DroneView, 'droneId' | 'status' | 'programs' | 'engine'>): Finding[] {
  const images = programs.flatMap(({ image }) => (image === undefined ? [] : [image]));
  if (status === 'lost' || status === 'stopped' || images.length === 0) return [];
  const subject = `container engine of ${printable(droneId)}`;
  if (engine === null) {
    return [unsure(subject, 'the drone has not asked it yet', 'Ask again in a few seconds.')];
  }
  return engine.problem === null
    ? [well(subject, `answers; needed for ${String(images.length)} programs`)]
    : [
        wrong(
          subject,
          printable(engine.problem),
          'Start Docker or Podman there, or correct `engine.socket` in the configuration of the drone. Its containers that run are not affected.',
        ),
      ];
}

/** A step of the database's clock, and what follows from it. */
function clockJumpText({ at, jumpMs, remainingMs, unsureUntil }: ClockJumpView): string {
  const direction = jumpMs > 0 ? 'forward' : 'back';
  const step = `it stepped ${direction} by ${durationText(Math.abs(jumpMs))} at ${at}`;
  return remainingMs === 0
    ? step
    : `${step}; what was granted before is not taken over when it expires, until ${unsureUntil} at the latest`;
}

/** What the doctor says about one thing. `unsure` is worth reading, but needs no correction. */
export interface Finding {
  readonly subject: string;
  readonly state: 'well' | 'unsure' | 'wrong' | 'skipped';
  readonly text: string;
  /** What to do; always present when something is wrong. */
  readonly advice?: string | undefined;
  /** Of a controller: none answers there. */
  readonly isUnreachable?: true;
}

export function well(subject: string, text: string): Finding {
  return { subject, state: 'well', text };
}

export function unsure(subject: string, text: string, advice: string): Finding {
  return { subject, state: 'unsure', text, advice };
}

export function wrong(subject: string, text: string, advice: string): Finding {
  return { subject, state: 'wrong', text, advice };
}

/** Wrong, because no controller answers. */
export function unreached(subject: string, text: string, advice: string): Finding {
  return { ...wrong(subject, text, advice), isUnreachable: true };
}

export function skipped(subject: string, text: string): Finding {
  return { subject, state: 'skipped', text };
}
