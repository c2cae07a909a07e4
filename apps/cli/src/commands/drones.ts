import { setTimeout as delay } from 'node:timers/promises';
import type { ControllerApi } from '@leasehold/client';
import { bytesText, DRONE_SORTS, DRONE_STATUSES, percentText } from '@leasehold/keys-core';
import { durationWord } from '@leasehold/service-kit';
import { Option, type Command } from 'commander';
import type { Cli } from '../cli.ts';
import type { DroneListInput, DroneView } from '../controller-api.ts';
import { isPassing, refusal, usageFailure, type CliFailure } from '../failures.ts';
import {
  placeOption,
  withDatacenter,
  withDatacenters,
  withDuration,
  withPage,
  withReason,
  type ActOptions,
} from '../options.ts';
import { agoText, detailsText, durationText, printable, type Column } from '../output/text.ts';

/** `leasehold drones`. */
export function addDrones(cli: Cli, program: Command): void {
  const parent = program.command('drones').description('List drones, and take them out of use');
  addLs(cli, parent);
  addShow(cli, parent);
  addDrain(cli, parent);
  addUndrain(cli, parent);
  addMarkLost(cli, parent);
  addRemove(cli, parent);
}

const COLUMNS: readonly Column<DroneView>[] = [
  { head: 'drone', text: (drone) => printable(drone.droneId) },
  { head: 'status', text: (drone) => drone.status },
  { head: 'heartbeat', text: (drone) => heartbeatText(drone), align: 'right' },
  { head: 'backends', text: (drone) => loadText(drone), align: 'right' },
  { head: 'cpu', text: ({ machine }) => cpuText(machine), align: 'right' },
  { head: 'memory', text: ({ machine }) => memoryText(machine), align: 'right' },
  { head: 'disk', text: ({ machine }) => diskText(machine), align: 'right', isWide: true },
  { head: 'programs', text: (drone) => drone.programs.map((program) => program.name).join(' ') },
  { head: 'datacenter', text: (drone) => drone.datacenter },
  { head: 'version', text: (drone) => printable(drone.version) },
  { head: 'registered', text: (drone) => drone.registeredAt, isWide: true },
  { head: 'clock id', text: (drone) => drone.clockId, isWide: true },
];

function addLs(cli: Cli, parent: Command): void {
  withDatacenters(
    withPage(cli.leaf(parent, 'ls', 'List drones and when they last sent a heartbeat')),
  )
    .addOption(new Option('--status <status>', 'in this status').choices(DRONE_STATUSES))
    .option('--program <program>', 'that offer this program')
    .addOption(
      new Option('--sort <field>', 'sort by this, the most first; by default the id').choices(
        DRONE_SORTS,
      ),
    )
    .action(async (options: DroneListInput) => {
      const page = await cli.client().drones.list.query(options);
      cli.showPage(page, 'No drones.', COLUMNS);
    });
}

type Machine = DroneView['machine'];

function cpuText(machine: Machine): string {
  return machine === null ? '-' : percentText(machine.cpuShare);
}

function memoryText(machine: Machine): string {
  return machine === null ? '-' : usedText(machine.memoryUsedBytes, machine.memoryBytes);
}

function diskText(machine: Machine): string {
  return machine === null ? '-' : usedText(machine.diskUsedBytes, machine.diskBytes);
}

function usedText(usedBytes: number, bytes: number): string {
  return bytes === 0 ? '-' : `${percentText(usedBytes / bytes)} of ${bytesText(bytes)}`;
}

/** How long ago a drone sent a heartbeat, by the database's clock. */
function heartbeatText({ heartbeatAgeMs }: DroneView): string {
  return heartbeatAgeMs === null ? 'never' : `${durationText(heartbeatAgeMs)} ago`;
}

function loadText({ backendCount, capacity }: DroneView): string {
  return `${String(backendCount)} of ${String(capacity)}`;
}

function addShow(cli: Cli, parent: Command): void {
  withDatacenter(cli.leaf(parent, 'show <drone>', 'Show one drone')).action(
    async (droneId: string, { datacenter }: ActOptions) => {
      const drone = await cli.client().drones.get.query({ droneId, datacenter });
      cli.show(drone, () => droneText(drone));
    },
  );
}

function droneText(drone: DroneView): string {
  return detailsText([
    ['drone', printable(drone.droneId)],
    ['status', drone.status],
    ['heartbeat', heartbeatText(drone)],
    ['round trip', drone.roundTripMs === null ? '-' : `${drone.roundTripMs.toFixed(1)} ms`],
    ['registered', agoText(drone.registeredAt, drone.asOf)],
    ...(drone.stoppedAt === null
      ? []
      : [['stopped', agoText(drone.stoppedAt, drone.asOf)] as const]),
    ...(drone.lostAt === null ? [] : [['lost', agoText(drone.lostAt, drone.asOf)] as const]),
    ['draining', drone.draining ? 'yes' : 'no'],
    ['backends', backendsText(drone)],
    ...machineRows(drone),
    ['programs', drone.programs.map(programText).join(', ') || '-'],
    ...(drone.warm.length === 0 ? [] : [['warm', drone.warm.map(warmText).join(', ')] as const]),
    ...(drone.engine === null ? [] : [['container engine', engineText(drone.engine)] as const]),
    ...isolationRows(drone),
    ['datacenter', drone.datacenter],
    ['version', printable(drone.version)],
    ['session', String(drone.session)],
    ['clock id', drone.clockId],
  ]);
}

/** With how many of each program, if it runs some. */
function backendsText(drone: DroneView): string {
  const programs = Object.entries(drone.programBackends).sort(([a], [b]) => (a < b ? -1 : 1));
  const counts = programs.map(([name, backends]) => `${name} ${String(backends)}`);
  return counts.length === 0 ? loadText(drone) : `${loadText(drone)} (${counts.join(', ')})`;
}

function machineRows({ machine }: DroneView): readonly (readonly [string, string])[] {
  if (machine === null) return [];
  return [
    ['cpu', `${cpuText(machine)} of ${String(machine.processors)} processors`],
    ['memory', memoryText(machine)],
    ['disk', diskText(machine)],
  ];
}

function isolationRows({ isolation }: DroneView): readonly (readonly [string, string])[] {
  if (isolation === null) {
    return [['isolation', 'the drone does not report it: it is of an earlier version']];
  }
  const { user, pidNamespace, privateProc, hiddenHome, noNewPrivs, detail } = isolation;
  const has = [
    ...(pidNamespace ? ['PID namespace'] : []),
    ...(privateProc ? ['private /proc'] : []),
    ...(hiddenHome ? ['hidden state folder and home'] : []),
    ...(noNewPrivs ? ['no_new_privs'] : []),
  ];
  return [
    ['programs run as', user === 'own' ? 'users of their own' : "the drone's own user"],
    ['isolation', `${has.join(', ') || 'none'} (${printable(detail)})`],
  ];
}

function programText(program: DroneView['programs'][number]): string {
  const takes = [
    ...(program.allowArgs ? ['arguments'] : []),
    ...program.allowEnv.map((name) => printable(name)),
  ];
  const facts = [
    ...(program.image === undefined ? [] : [`container of ${printable(program.image)}`]),
    ...(program.lifetimeLimitSeconds === undefined
      ? []
      : [`lives ${String(program.lifetimeLimitSeconds)} s at most`]),
    ...(program.idleStopSeconds === undefined
      ? []
      : [`stops after ${String(program.idleStopSeconds)} s without a use`]),
    ...(takes.length === 0 ? [] : [`takes ${takes.join(', ')}`]),
  ];
  return facts.length === 0 ? program.name : `${program.name} (${facts.join('; ')})`;
}

function warmText({ program, count, wanted, problem }: DroneView['warm'][number]): string {
  const text = `${program} ${String(count)} of ${String(wanted)}`;
  return problem === null ? text : `${text} (${printable(problem)})`;
}

function engineText({ problem }: NonNullable<DroneView['engine']>): string {
  return problem === null ? 'answers' : printable(problem);
}

type DrainOptions = ActOptions & { readonly stop?: true; readonly stopAfter?: number };

/** How long backends may go on before they are stopped. */
const AFTER_RANGE = [1_000, 7 * 24 * 3_600_000] as const;

const DRAIN_HELP = `
With --stop it waits until no backend is left, and shows how many are: after --stop-after, or at once, those that still run
are asked to stop, each with the grace of its program. Ctrl-C stops waiting, not the drain, and ends with 1.`;

function addDrain(cli: Cli, parent: Command): void {
  const command = cli
    .leaf(parent, 'drain <drone>', 'Start no new backends on a drone; running ones continue')
    .option('--stop', 'stop those that are left, and wait until they have ended')
    .addHelpText('after', DRAIN_HELP);
  withDuration(command, '--stop-after', {
    about: 'with --stop: how long running ones may continue',
    range: AFTER_RANGE,
  });
  withReason(withDatacenter(command), false).action(
    async (droneId: string, { stop, stopAfter: after = 0, ...options }: DrainOptions) => {
      if (after > 0 && stop === undefined) throw usageFailure('--stop-after needs --stop.');
      const input = { droneId, ...options };
      // From here on a signal ends the waiting: it must not end the process before the answer.
      const interrupted = stop === true ? cli.context.signal() : undefined;
      const { drones } = cli.client();
      const drained = await drones.drain.mutate(
        stop === true && after === 0 ? { ...input, stop } : input,
      );
      if (interrupted === undefined) {
        cli.show(drained, () => drainedText(input, drained));
        return;
      }
      await drainAndStop(cli, { input, after, drained, interrupted });
    },
  );
}

type Drained = Awaited<ReturnType<Drones['drain']['mutate']>>;

function drainedText({ droneId, datacenter }: StopPlan['input'], { backends }: Drained): string {
  const name = printable(droneId);
  const remaining = backends.map((backend) => `\n  ${backend.backendId}`).join('');
  return remaining === ''
    ? `${name} takes no new backends, and runs none.`
    : `${name} takes no new backends. It still runs these; ` +
        `\`leasehold backends terminate ID${placeOption(datacenter)}\` stops one:${remaining}`;
}

const DRAIN_POLL_MS = 1_000;
const NO_ANSWER = 'no controller answers; trying again';

interface StopPlan {
  readonly input: ActOptions & { readonly droneId: string };
  /** Milliseconds; 0 when they have been asked already. */
  readonly after: number;
  readonly drained: Drained;
  readonly interrupted: AbortSignal;
}

/** What becomes of the backends that are left; it is not known whether a stop without an answer was carried out. */
type Fate = 'go on' | 'may be stopping' | 'are stopping';

/** Waits until a drained drone has no backend left, and stops those that are left when their time is up. */
async function drainAndStop(cli: Cli, { input, after, drained, interrupted }: StopPlan) {
  const { drones } = cli.client();
  const { droneId, datacenter } = input;
  const name = printable(droneId);
  const say = progressOf(cli);
  const stopsAtMs = performance.now() + after;
  // A controller that hangs would keep each call for as long as it may take.
  const until = { signal: interrupted };
  let [stopping, fate]: [Drained | undefined, Fate] =
    after === 0 ? [drained, 'are stopping'] : [undefined, 'go on'];
  let left = drained.backends.length;
  const restText = (): string =>
    `${String(left)} of ${countText(drained.backends.length)} left on ${name}`;
  const assertGoesOn = (): void => {
    if (interrupted.aborted) throw interruption(input, restText(), fate);
  };
  for (;;) {
    const drone = await passing(
      () => drones.get.query({ droneId, datacenter }, until),
      interrupted,
    );
    left = backendsLeft(drone) ?? left;
    if (left === 0) break;
    assertGoesOn();
    if (stopping === undefined && performance.now() >= stopsAtMs) {
      fate = 'may be stopping';
      const stop = { ...input, stop: true } as const;
      stopping = await passing(() => drones.drain.mutate(stop, until), interrupted);
      if (stopping !== undefined) fate = 'are stopping';
      assertGoesOn();
    }
    const next = stopping === undefined ? `stopped after ${durationWord(after)}` : 'stopping';
    say(drone && `${restText()}, ${next}`);
    await delay(DRAIN_POLL_MS, undefined, until).catch(() => undefined);
    assertGoesOn();
  }
  showDrained(cli, { droneId, changed: drained.changed }, stopping?.stoppingCount ?? 0);
}

/** Prints what has changed, for people. */
function progressOf(cli: Cli): (progress: string | undefined) => void {
  let said = '';
  return (progress = NO_ANSWER) => {
    if (progress !== said && !cli.isJson) cli.context.stderr(`${progress}\n`);
    said = progress;
  };
}

function showDrained(
  cli: Cli,
  of: { readonly droneId: string; readonly changed: boolean },
  stoppingCount: number,
): void {
  const how = stoppingCount === 0 ? '' : `: ${countText(stoppingCount)} asked to stop`;
  cli.show(
    { ...of, backendCount: 0, stoppingCount },
    () => `${printable(of.droneId)} takes no new backends, and runs none${how}.`,
  );
}

function countText(count: number): string {
  return count === 1 ? '1 backend' : `${String(count)} backends`;
}

/** Undefined when no controller has answered. @throws {CliFailure} `drone.not_draining`. */
function backendsLeft(drone: DroneView | undefined): number | undefined {
  if (drone === undefined) return undefined;
  const { droneId, draining, stoppedAt, backendCount } = drone;
  if (draining || stoppedAt !== null || backendCount === 0) return backendCount;
  throw refusal(
    'drone.not_draining',
    `${printable(droneId)} takes new backends again: somebody has undrained it meanwhile.`,
  );
}

function interruption(
  { droneId, datacenter }: StopPlan['input'],
  rest: string,
  fate: Fate,
): CliFailure {
  const name = printable(droneId);
  const place = placeOption(datacenter);
  return refusal(
    'cli.interrupted',
    `${rest}. It goes on draining, and they ${fate}.`,
    fate === 'are stopping'
      ? `\`leasehold drones show ${name}${place}\` shows how many are left.`
      : `\`leasehold drones drain ${name} --stop${place}\` stops them; \`leasehold drones undrain ${name}${place}\` ends the drain.`,
  );
}

/** Undefined after a failure that passes by itself, and of what was interrupted. */
async function passing<Answer>(
  ask: () => Promise<Answer>,
  interrupted: AbortSignal,
): Promise<Answer | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (!isPassing(error) && !interrupted.aborted) throw error;
    return undefined;
  }
}

function addUndrain(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'undrain <drone>', 'Let a drone take new backends again');
  act(
    cli,
    command,
    (drones, input) => drones.undrain.mutate(input),
    (name) => `${name} takes new backends.`,
  );
}

const MARK_LOST_HELP = `
Use this for a machine that is gone. It gets no new backends, and its keys are not renewed any more.
Each key is granted again only when it has expired, because its backend may still run unseen.`;

function addMarkLost(cli: Cli, parent: Command): void {
  const command = cli
    .leaf(parent, 'mark-lost <drone>', 'Declare a drone permanently lost')
    .addHelpText('after', MARK_LOST_HELP);
  act(
    cli,
    command,
    (drones, input) => drones.markLost.mutate(input),
    (name) => `${name} is marked as lost. Its keys expire.`,
  );
}

const REMOVE_HELP = `
Only a drone that has stopped, or is gone with all of its backends. History and audit keep its id. Its tokens stay: one
that is in force may register the id again, as a new drone; revoke it if that must not happen.`;

function addRemove(cli: Cli, parent: Command): void {
  const command = cli
    .leaf(parent, 'remove <drone>', 'Forget a drone that has stopped or is gone')
    .addHelpText('after', REMOVE_HELP);
  // Without `--datacenter`: nobody is an administrator in another one.
  withReason(command, false).action(
    async (droneId: string, { reason }: Pick<ActOptions, 'reason'>) => {
      const answer = await cli.client().drones.remove.mutate({ droneId, reason });
      const lines = answer.tokens.map(
        (token) => `\n  ${printable(token.name)}: \`leasehold tokens revoke ${token.tokenId}\``,
      );
      const note =
        lines.length === 0
          ? ''
          : ` These tokens are in force, and may register it again as a new drone:${lines.join('')}`;
      cli.show(answer, () => `${printable(droneId)} is removed.${note}`);
    },
  );
}

type Drones = ControllerApi['drones'];

/** Lets a command carry out an act on one drone. */
function act<Answer>(
  cli: Cli,
  command: Command,
  mutate: (drones: Drones, input: ActOptions & { droneId: string }) => Promise<Answer>,
  text: (drone: string, answer: Answer) => string,
): void {
  withReason(withDatacenter(command), false).action(
    async (droneId: string, options: ActOptions) => {
      const answer = await mutate(cli.client().drones, { droneId, ...options });
      cli.show(answer, () => text(printable(droneId), answer));
    },
  );
}
