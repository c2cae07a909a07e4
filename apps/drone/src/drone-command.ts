import { once } from 'node:events';
import net from 'node:net';
import { parseArgs } from 'node:util';
import { LeaseError } from '@leasehold/keys-core';
import {
  createLogger,
  createShutdown,
  type Environment,
  type Logger,
  systemIds,
} from '@leasehold/service-kit';
import { createBootClock, type TickingClock } from '@leasehold/service-kit/boot-clock';
import { startTracing } from '@leasehold/service-kit/start-tracing';
import packageJson from '../package.json' with { type: 'json' };
import { DroneAgent } from './agent/agent.ts';
import { TrpcControllerLink } from './agent/controller-link.ts';
import { wardenSource } from './agent/warden-command.ts';
import type { WardenSource } from './agent/warden-link.ts';
import { type DroneConfig, loadDroneConfig, processEnvironment } from './config.ts';
import { readWardenRecord, writeAgentRecord } from './records.ts';

const EXIT = { done: 0, failed: 1, usage: 2 } as const;
/** How long a warden may take to answer a health check. */
const ANSWER_MS_MAX = 3_000;
/** A warden answers it, with a refusal: a health check has no secret, and never takes command. */
const QUESTION = `${JSON.stringify({ id: 0, op: 'alive' })}\n`;
/** What a stop may take beyond the longest grace before the process ends all the same. */
const STOP_ALLOWANCE_MS = 10_000;

interface DroneCommand {
  /** What its user has typed before the arguments. */
  readonly name?: string | undefined;
  /** The commit that the drone was built from; null where that is not known. */
  readonly build?: string | null | undefined;
  readonly args: readonly string[];
  /**
   * What becomes the warden when a state folder and a PATH are added to it. The drone's own file is the word
   * before `warden`.
   */
  readonly wardenCommand: readonly string[];
  readonly clock?: TickingClock | undefined;
  /** What stands in for a warden of real processes. */
  readonly wardens?: WardenSource | undefined;
}

/**
 * `agent --config FILE`: runs a drone until it is told to end. Returns the exit code, with which the caller
 * ends the process.
 */
export async function runDroneCommand({
  name = 'leasehold drone',
  build = null,
  args,
  wardenCommand,
  clock = createBootClock(),
  wardens,
}: DroneCommand): Promise<number> {
  const environment = processEnvironment();
  const given = givenBy(name, args, environment);
  if (given === undefined) return EXIT.usage;
  const { config, adoptsOnly } = given;
  const log = createLogger({ name: 'agent', level: config.logLevel });
  const { version } = packageJson;
  log.info({ version, build, droneId: config.droneId }, 'the drone starts');
  const tracing = await startTracing({ name: 'leasehold-drone', version, environment, log });
  const ids = systemIds();
  const random = (): number => ids.random();
  const shutdown = createShutdown({ timeLimitMs: longestGraceMs(config) + STOP_ALLOWANCE_MS, log });
  shutdown.listen();
  const link = new TrpcControllerLink({
    url: config.controllerUrls,
    token: config.token,
    random,
    onConnection: (state) => log.info({ state }, 'connection to the controller'),
  });
  let agent: DroneAgent;
  try {
    agent = new DroneAgent({
      config,
      clock,
      log,
      random,
      version,
      link,
      entry: wardenCommand.at(-2) ?? config.file,
      inheritedEnv: environment,
      wardens:
        wardens ??
        wardenSource({
          stateDir: config.stateDir,
          command: adoptsOnly ? undefined : wardenCommand,
          searchPath: environment['PATH'] ?? '',
          nowMs: () => clock.nowMs(),
        }),
    });
  } catch (error) {
    return couldNotStart(log, error);
  }
  // Before it has started: it may be waiting for a controller when it is told to end.
  shutdown.add('agent', () => agent.stop());
  process.on('SIGUSR2', () => void agent.leave());
  try {
    const inCommand = agent.start().then(() => {
      leaveRecord(config.stateDir, { version, build, log });
      process.send?.({ type: 'ready', problems: agent.programProblems });
    });
    await Promise.race([inCommand, agent.ended]);
    const end = await agent.ended;
    await tracing.stop();
    return end === 'replaced' ? EXIT.failed : EXIT.done;
  } catch (error) {
    return couldNotStart(log, error);
  }
}

/** Only an upgrade reads it: a disk that refuses it does not keep the agent from its backends. */
function leaveRecord(
  stateDir: string,
  { version, build, log }: { version: string; build: string | null; log: Logger },
): void {
  try {
    writeAgentRecord(stateDir, { pid: process.pid, version, build });
  } catch (error) {
    log.warn({ err: error }, 'the record of this agent could not be written: upgrades need it');
  }
}

/** Nothing is waited for: the process ends with this code, and a supervisor starts it again. */
function couldNotStart(log: Logger, error: unknown): number {
  log.fatal({ err: error }, 'the drone could not start');
  return EXIT.failed;
}

/** `health --config FILE`: whether the warden of this drone answers. For the health checks of containers. Returns the exit code. */
export async function runHealthCommand(name: string, args: readonly string[]): Promise<number> {
  const given = givenBy(`${name} health`, args, processEnvironment());
  if (given === undefined) return EXIT.usage;
  const problem = await wardenProblem(given.config.stateDir);
  if (problem === undefined) return EXIT.done;
  process.stderr.write(`${problem}\n`);
  return EXIT.failed;
}

/** What is wrong; undefined when the warden of the state folder answers. */
export async function wardenProblem(stateDir: string): Promise<string | undefined> {
  const record = readWardenRecord(stateDir);
  if (record === undefined) return `no warden has started in ${stateDir}`;
  const socket = net.connect(record.socketPath);
  try {
    socket.write(QUESTION);
    await once(socket, 'data', { signal: AbortSignal.timeout(ANSWER_MS_MAX) });
    return undefined;
  } catch (error) {
    const isLate = error instanceof Error && error.name === 'AbortError';
    const why = isLate ? `not in ${String(ANSWER_MS_MAX)} ms` : String(error);
    return `the warden does not answer: ${why}`;
  } finally {
    socket.destroy();
  }
}

/** Undefined, and said to the user, when it is not valid. */
function givenBy(
  name: string,
  args: readonly string[],
  environment: Environment,
): { config: DroneConfig; adoptsOnly: boolean } | undefined {
  try {
    const { config, adoptsOnly } = argumentsOf(name, args);
    return { config: loadDroneConfig(config, environment), adoptsOnly };
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return undefined;
  }
}

/**
 * `--adopt-only`: commands a warden that runs, and starts none; for the agent of an upgrade.
 * @throws {LeaseError} `config.invalid` when the arguments do not name one file.
 */
function argumentsOf(
  name: string,
  args: readonly string[],
): { config: string; adoptsOnly: boolean } {
  const usage = `usage: ${name} --config FILE`;
  try {
    const options = { config: { type: 'string' }, 'adopt-only': { type: 'boolean' } } as const;
    const { values } = parseArgs({ args: [...args], options });
    const { config = '', 'adopt-only': adoptsOnly = false } = values;
    if (config !== '') return { config, adoptsOnly };
  } catch (cause) {
    throw new LeaseError('config.invalid', usage, { cause });
  }
  throw new LeaseError('config.invalid', usage);
}

function longestGraceMs(config: DroneConfig): number {
  return Math.max(0, ...Object.values(config.programs).map((program) => program.stopGraceMs));
}
