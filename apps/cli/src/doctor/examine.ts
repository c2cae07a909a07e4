import { accessSync, constants, existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
import { toleratedClockRatio, type Ladder } from '@leasehold/keys-core';
import { readKeyLadders } from '@leasehold/keys-core/grants';
import { storeErrorOf } from '@leasehold/keys-core/keys';
import {
  connectionProblems,
  migrationStatus,
  poolerProblem,
  readDatabaseSettings,
  type Store,
} from '@leasehold/keys-core/postgres';
import { type Environment, jsonOf, shownUrl, connectionOf } from '@leasehold/service-kit';
import { pathOfPart } from '../apps.ts';
import { type CliConfig, type EtcdConfig, parseConfig } from '../config.ts';
import { controllerAccess, findTarget, type Target } from '../contexts.ts';
import { withStore } from '../database.ts';
import { EXIT_CODES, failureOf } from '../failures.ts';
import { readRunFile, runFilePath, runningUpOf, type RunFile } from '../home.ts';
import { printable } from '../output/text.ts';
import type { ProcessIdentity } from '../processes.ts';
import {
  examineController,
  type Finding,
  skipped,
  unreached,
  unsure,
  well,
  wrong,
} from './controller-check.ts';

const ANSWER_TIMEOUT_MS = 5_000;
const ANSWER_BYTES_MAX = 65_536;

/**
 * Checks the etcd and the other datacenters that this environment names from this machine: for when
 * the controller does not start, or reports something that is not so.
 */
export async function examineDatacenters({ etcd, peers }: CliConfig): Promise<Finding[]> {
  return [
    ...(etcd === null
      ? [skipped('etcd', 'LEASEHOLD_ETCD names none: reservations are in PostgreSQL')]
      : await examineEtcd(etcd)),
    ...(await Promise.all(Object.entries(peers).map(([name, url]) => peerFinding(name, url)))),
  ];
}

async function examineEtcd(etcd: EtcdConfig): Promise<Finding[]> {
  let files: RequestOptions;
  try {
    files = await tlsFiles(etcd);
  } catch (error) {
    return [
      wrong(
        'etcd',
        causeOf(error),
        'See LEASEHOLD_ETCD_CA_FILE, LEASEHOLD_ETCD_CERT_FILE and LEASEHOLD_ETCD_KEY_FILE.',
      ),
    ];
  }
  return Promise.all(etcd.endpoints.map((endpoint) => endpointFinding(endpoint, files)));
}

async function tlsFiles({ caFile, certFile, keyFile }: EtcdConfig): Promise<RequestOptions> {
  const read = async (path: string | null): Promise<Buffer | undefined> =>
    path === null ? undefined : readFile(path);
  return { ca: await read(caFile), cert: await read(certFile), key: await read(keyFile) };
}

const OK = 200;
/** With this status etcd says that it is not healthy, and why. */
const UNAVAILABLE = 503;

/** etcd answers `/health` without credentials: whether the member has a leader, and can read. */
async function endpointFinding(endpoint: string, files: RequestOptions): Promise<Finding> {
  const subject = 'etcd';
  const shown = shownUrl(endpoint);
  try {
    const body = await requestBody(new URL('/health', endpoint), files, [OK, UNAVAILABLE]);
    const { health, reason } = healthOf(body);
    if (health === 'true') return well(subject, `${shown} is healthy`);
    const why = typeof reason === 'string' && reason !== '' ? `: ${printable(reason)}` : '';
    return wrong(
      subject,
      `${shown} reports that it is not healthy${why}`,
      'Without a leader: check that a majority of members run and reach each other. See the runbook.',
    );
  } catch (error) {
    return wrong(
      subject,
      `${shown}: ${causeOf(error)}`,
      'Is it running, can this machine reach it, and is it an etcd with the right certificate?',
    );
  }
}

/** @throws {Error} for what is no answer of an etcd. */
function healthOf(body: string): { readonly health: unknown; readonly reason?: unknown } {
  const answer = jsonOf(body);
  if (typeof answer !== 'object' || answer === null || !('health' in answer)) {
    throw new Error('it does not answer as an etcd');
  }
  return answer;
}

async function peerFinding(name: string, url: string): Promise<Finding> {
  const subject = `peer ${name}`;
  const shown = shownUrl(url);
  try {
    await requestBody(new URL('/healthz', url), {}, [OK]);
    return well(subject, `${shown} answers`);
  } catch (error) {
    return wrong(
      subject,
      `${shown}: ${causeOf(error)}`,
      'Its keys are still served there. Is LEASEHOLD_PEERS right, and can this machine reach it?',
    );
  }
}

/** The body of an answer with one of these statuses. @throws {Error} for any other, and when none comes in time. */
function requestBody(
  url: URL,
  files: RequestOptions,
  statuses: readonly number[],
): Promise<string> {
  return new Promise((resolve, reject) => {
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
    const request = send(url, { ...files, signal }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text;
        if (body.length > ANSWER_BYTES_MAX) response.destroy(new Error('the answer is too large'));
      });
      response.once('error', reject).once('end', () => {
        if (statuses.includes(response.statusCode ?? 0)) resolve(body);
        else reject(new Error(`it answers with ${String(response.statusCode)}`));
      });
    });
    request.once('error', (error) =>
      reject(signal.aborted ? new Error(`no answer in ${String(ANSWER_TIMEOUT_MS)} ms`) : error),
    );
    request.end();
  });
}

/** A refused connection to a name with several addresses has no message, only a code. */
function causeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  if (!(cause instanceof Error)) return String(cause);
  return cause.message || ('code' in cause ? String(cause.code) : cause.name);
}

/** Checks everything that can be checked from here. Never throws: a failure is a finding. */
export async function examine(environment: Environment): Promise<Finding[]> {
  let config: CliConfig;
  let target: Target;
  try {
    const parsed = parseConfig(environment);
    target = findTarget(parsed, environment);
    config = { ...parsed, urls: target.urls === null ? null : [...target.urls] };
  } catch (error) {
    const { message, hint } = failureOf(error);
    const isVariables = failureOf(error).code === 'config.invalid';
    const advice = isVariables ? 'Correct these variables, and run this again.' : hint;
    return [wrong('configuration', message, advice ?? 'Correct it, and run this again.')];
  }
  return [
    well('configuration', 'every variable is valid; `leasehold config print` shows them'),
    examineHome(config),
    ...(await databaseFindings(config)),
    ...(await examineDatacenters(config)),
    ...(await controllerFindings(config, target)),
    await examineConsole(config),
  ];
}

/** The findings about the database that is configured, or runs in the home; it may not answer. */
export async function databaseFindings(
  config: CliConfig,
  answerMsMax?: number,
): Promise<Finding[]> {
  const databaseUrl = config.databaseUrl ?? localDatabaseUrl(config);
  if (databaseUrl === undefined) {
    return [skipped('database', 'neither DATABASE_URL nor a running `leasehold up` names one')];
  }
  try {
    return await examineDatabase(databaseUrl, config, answerMsMax);
  } catch (error) {
    const { message } = failureOf(storeErrorOf(error));
    return [
      wrong(
        'database',
        // The last line is the database's own message.
        `${shownUrl(databaseUrl)}: ${message.trim().split('\n').at(-1) ?? message}`,
        'Check that it runs, that DATABASE_URL is right, and that this machine can reach it.',
      ),
    ];
  }
}

/** Only what runs in the home, and only if commands talk to that. */
function localDatabaseUrl({ urls, home }: CliConfig): string | undefined {
  if (urls !== null) return undefined;
  return ifReadable(() => runningUpOf(home) && readRunFile(home))?.databaseUrl;
}

/** Undefined of a home that cannot be read, which {@link examineHome} reports. */
function ifReadable<Answer>(read: () => Answer): Answer | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

async function controllerFindings(config: CliConfig, target: Target): Promise<Finding[]> {
  try {
    return await examineController(controllerAccess(config, target));
  } catch (error) {
    const { message, hint, exitCode } = failureOf(error);
    const finding = exitCode === EXIT_CODES.unreachable ? unreached : wrong;
    return [finding('controller', message, hint ?? 'See the log of the controller.')];
  }
}

/** The home directory, and whether something runs from it. */
export function examineHome(config: CliConfig): Finding {
  const { home } = config;
  // Where commands talk to other controllers, what is left here harms nothing.
  const finding = config.urls === null ? wrong : unsure;
  if (!existsSync(home)) {
    return config.urls === null
      ? wrong(
          'home',
          `${home} does not exist`,
          'Start everything here with `leasehold up`, or set LEASEHOLD_URL.',
        )
      : skipped('home', `${home} does not exist, and LEASEHOLD_URL is set`);
  }
  try {
    accessSync(home, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return finding(
      'home',
      `${home} may not be used by this user`,
      'Use the user who started `leasehold up`.',
    );
  }
  let up: ProcessIdentity | undefined;
  let run: RunFile | undefined;
  try {
    up = runningUpOf(home);
    run = readRunFile(home);
  } catch (error) {
    const { message, hint } = failureOf(error);
    return finding('home', message, hint ?? 'Use the user who started `leasehold up`.');
  }
  if (up !== undefined) {
    return run === undefined
      ? unsure(
          'home',
          `${home}: leasehold up is starting, as process ${String(up.pid)}`,
          'Wait a moment.',
        )
      : well('home', `${home}: leasehold up runs as process ${String(up.pid)}`);
  }
  if (run !== undefined) {
    return finding(
      'home',
      `${runFilePath(home)} exists, but leasehold up was killed`,
      'Start it again: it ends leftover processes, and keeps the data.',
    );
  }
  return skipped('home', `${home}: leasehold up does not run`);
}

/** The console that browsers are sent to, and whether it reaches its controller. */
async function examineConsole(config: CliConfig): Promise<Finding> {
  const running = config.urls === null ? ifReadable(() => readRunFile(config.home)) : undefined;
  const url = config.consoleOrigin ?? running?.consoleUrl ?? null;
  if (url === null) {
    return skipped('console', 'none runs here, and LEASEHOLD_CONSOLE_ORIGIN names no other');
  }
  try {
    const page = await fetchPage(`${url}/healthz`);
    if (!page.ok) {
      return wrong(
        'console',
        `${url} answers with ${String(page.status)}`,
        'Is this the address of a console? See its log.',
      );
    }
    const passed = await fetchPage(`${url}/api/auth/sign-in-options`);
    return passed.ok
      ? well('console', `${url} answers, and reaches its controller`)
      : wrong(
          'console',
          `${url} answers, but cannot reach its controller (${String(passed.status)})`,
          'Check its LEASEHOLD_URL, and that the controller runs.',
        );
  } catch (error) {
    return wrong(
      'console',
      `${url} does not answer: ${causeOf(error)}`,
      'Is it running, and can this machine reach it? See its log.',
    );
  }
}

function fetchPage(url: string): Promise<Response> {
  return fetch(url, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
}

const POSTGRES_VERSION_MIN = 150_000;
/** For how long the database's clock is compared with this machine's monotonic one. */
const CLOCK_WATCH_MS = 1_000;
const ROUND_TRIPS = 5;
/** Above this a renewal takes a large part of the time in which it can be retried. */
const ROUND_TRIP_MS_MAX = 250;

/** Checks the database: its version, durability, privileges, migrations, ladders and clock. */
export async function examineDatabase(
  databaseUrl: string,
  config: CliConfig,
  answerMsMax?: number,
): Promise<Finding[]> {
  const pooler = await poolerProblem(databaseUrl, answerMsMax);
  if (pooler !== undefined) {
    return [wrong('database', pooler, 'Correct this. Until then a controller refuses to start.')];
  }
  return withStore(databaseUrl, config.datacenter, async (store) => {
    const findings = await settingsFindings(store, connectionOf(databaseUrl).schema);
    try {
      findings.push(await migrationFinding(databaseUrl));
      findings.push(...(await clockFindings(store, config)));
      findings.push(...ladderFindings(await readKeyLadders(store.general)));
    } catch (error) {
      // Without its tables no more can be read, and what keeps them away is among the findings.
      if (!findings.some(({ state }) => state === 'wrong')) throw error;
      findings.push(
        unsure(
          'database',
          `the rest could not be read: ${error instanceof Error ? error.message : String(error)}`,
          'Correct what is wrong first.',
        ),
      );
    }
    return findings;
  });
}

async function settingsFindings(store: Store, schema: string): Promise<Finding[]> {
  const settings = await readDatabaseSettings(store.general);
  const findings = [
    settings.versionNumber < POSTGRES_VERSION_MIN
      ? wrong(
          'database',
          `PostgreSQL ${settings.version}`,
          'Leasehold needs PostgreSQL 15 or later.',
        )
      : well('database', `PostgreSQL ${settings.version} answers`),
    settings.synchronousCommit === 'off' || settings.synchronousCommit === 'local'
      ? wrong(
          'durability',
          `synchronous_commit is ${settings.synchronousCommit}: a crash may lose a grant that was answered`,
          'Set synchronous_commit to on; until then a controller refuses to start.',
        )
      : well('durability', `synchronous_commit is ${settings.synchronousCommit}`),
  ];
  if (settings.isReadOnly) {
    findings.push(
      wrong(
        'writes',
        'the database is read-only: it is a standby, or default_transaction_read_only is on',
        'Name the primary in DATABASE_URL, or reset the setting; until then no controller is ready.',
      ),
    );
  }
  const problems = connectionProblems(settings, schema);
  findings.push(
    problems.length === 0
      ? well('schema', `"${schema}", with every privilege that a controller needs`)
      : wrong(
          'schema',
          problems.join('; '),
          'Correct this. Until then a controller refuses to start.',
        ),
  );
  if (settings.standbyCount > 0 && settings.synchronousStandbyNames === '') {
    findings.push(
      unsure(
        'standby',
        `${String(settings.standbyCount)} standby servers, none of them synchronous`,
        'A failover may lose grants and renewals; set synchronous_standby_names.',
      ),
    );
  }
  return findings;
}

async function migrationFinding(databaseUrl: string): Promise<Finding> {
  const status = await migrationStatus(databaseUrl, pathOfPart('migrations'));
  if (status.newer.length > 0) {
    return wrong(
      'migrations',
      `a newer version has applied ${status.newer.join(', ')}`,
      'Use that version: a controller of this version refuses to start.',
    );
  }
  if (status.changed.length > 0) {
    return wrong(
      'migrations',
      `applied from files that differ from those of this version: ${status.changed.join(', ')}`,
      'Use the migration files of the release unchanged.',
    );
  }
  return status.pending.length === 0
    ? well('migrations', `${String(status.applied.length)} applied, none pending`)
    : wrong('migrations', `not applied: ${status.pending.join(', ')}`, 'Run `leasehold migrate`.');
}

/** Controllers that give keys different ladders are safe, but a mistake. */
export function ladderFindings(ladders: readonly Ladder[]): Finding[] {
  if (ladders.length < 2) return [];
  const texts = ladders.map(({ ttlMs }) => `${String(ttlMs / 1_000)} s`);
  return [
    unsure(
      'ladders',
      `controllers give keys different ladders, which expire after ${texts.join(' and ')}`,
      'Start them with the same LEASEHOLD_PRESET and LEASEHOLD_KEY_*_MS. Each grant keeps its own until then.',
    ),
  ];
}

async function clockFindings(store: Store, config: CliConfig): Promise<Finding[]> {
  const first = await readClock(store);
  await delay(CLOCK_WATCH_MS);
  const second = await readClock(store);
  const driftMs = second.databaseMs - first.databaseMs - (second.localMs - first.localMs);
  // Where in its round trip a reading was taken is not known.
  const boundMs = (first.roundTripMs + second.roundTripMs) / 2;
  const allowedMs = boundMs + CLOCK_WATCH_MS * (toleratedClockRatio(config.ladder) - 1);
  const drift = `${driftMs.toFixed(1)} ms in ${String(CLOCK_WATCH_MS)} ms, known to ±${boundMs.toFixed(1)} ms`;
  return [
    second.roundTripMs > ROUND_TRIP_MS_MAX
      ? unsure(
          'round trip',
          `${second.roundTripMs.toFixed(1)} ms to the database`,
          'Renewals may be late: move controllers closer to it, or use a longer ladder.',
        )
      : well('round trip', `${second.roundTripMs.toFixed(1)} ms to the database`),
    Math.abs(driftMs) > allowedMs
      ? wrong(
          'clock',
          `the database's clock and this machine's clock drifted apart by ${drift}`,
          'The clock of the database must be slewed, never stepped: look at its time service.',
        )
      : well('clock', `the database's clock and this machine's clock drifted apart by ${drift}`),
  ];
}

interface ClockReading {
  readonly databaseMs: number;
  readonly localMs: number;
  readonly roundTripMs: number;
}

/** The reading with the shortest of a few round trips; it counts as made in the middle of that. */
async function readClock(store: Store): Promise<ClockReading> {
  const readings: ClockReading[] = [];
  for (let tries = 0; tries < ROUND_TRIPS; tries += 1) {
    const sentMs = performance.now();
    const rows = await store.general.$queryRaw<{ databaseMs: number }[]>`
      select (extract(epoch from clock_timestamp()) * 1000)::float8 as "databaseMs"`;
    const roundTripMs = performance.now() - sentMs;
    const databaseMs = rows[0]?.databaseMs ?? Number.NaN;
    readings.push({ databaseMs, localMs: sentMs + roundTripMs / 2, roundTripMs });
  }
  return readings.reduce((best, next) => (next.roundTripMs < best.roundTripMs ? next : best));
}
