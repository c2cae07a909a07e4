import { accessSync, constants, existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { storeErrorOf } from '@leasehold/keys-core/keys';
import { type Environment, shownUrl } from '@leasehold/service-kit';
import { type CliConfig, type EtcdConfig, parseConfig } from '../config.ts';
import { controllerAccess, findTarget, type Target } from '../contexts.ts';
import { failureOf } from '../failures.ts';
import { readRunFile, runFilePath, runningUpOf } from '../home.ts';
import { examineController } from './controller-check.ts';
import { examineDatabase } from './database-check.ts';
import { type Finding, skipped, unsure, well, wrong } from './finding.ts';

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

/** etcd answers `/health` without credentials: whether the member has a leader, and can read. */
async function endpointFinding(endpoint: string, files: RequestOptions): Promise<Finding> {
  const subject = 'etcd';
  const shown = shownUrl(endpoint);
  try {
    const body = await requestBody(new URL('/health', endpoint), files);
    const parsed: unknown = JSON.parse(body);
    const isHealthy =
      typeof parsed === 'object' &&
      parsed !== null &&
      'health' in parsed &&
      parsed.health === 'true';
    return isHealthy
      ? well(subject, `${shown} is healthy`)
      : wrong(
          subject,
          `${shown} reports that it is not healthy`,
          'It has no leader: check that a majority of members run and reach each other. See the runbook.',
        );
  } catch (error) {
    return wrong(
      subject,
      `${shown}: ${causeOf(error)}`,
      'Is it running, can this machine reach it, and is it an etcd with the right certificate?',
    );
  }
}

async function peerFinding(name: string, url: string): Promise<Finding> {
  const subject = `peer ${name}`;
  const shown = shownUrl(url);
  try {
    await requestBody(new URL('/healthz', url), {});
    return well(subject, `${shown} answers`);
  } catch (error) {
    return wrong(
      subject,
      `${shown}: ${causeOf(error)}`,
      'Its keys are still served there. Is LEASEHOLD_PEERS right, and can this machine reach it?',
    );
  }
}

/** The body of an answer of 200. @throws {Error} for any other, and when none comes in time. */
function requestBody(url: URL, files: RequestOptions): Promise<string> {
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
        if (response.statusCode === 200) resolve(body);
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

async function databaseFindings(config: CliConfig): Promise<Finding[]> {
  const databaseUrl = config.databaseUrl ?? localDatabaseUrl(config);
  if (databaseUrl === undefined) {
    return [skipped('database', 'neither DATABASE_URL nor a running `leasehold up` names one')];
  }
  try {
    return await examineDatabase(databaseUrl, config);
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
function localDatabaseUrl(config: CliConfig): string | undefined {
  const isMeant = config.urls === null && runningUpOf(config.home) !== undefined;
  return isMeant ? readRunFile(config.home)?.databaseUrl : undefined;
}

async function controllerFindings(config: CliConfig, target: Target): Promise<Finding[]> {
  try {
    return await examineController(controllerAccess(config, target));
  } catch (error) {
    const { message, hint } = failureOf(error);
    return [wrong('controller', message, hint ?? 'See the log of the controller.')];
  }
}

/** The home directory, and whether something runs from it. */
function examineHome(config: CliConfig): Finding {
  const { home } = config;
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
    return wrong(
      'home',
      `${home} may not be used by this user`,
      'Use the user who started `leasehold up`.',
    );
  }
  const up = runningUpOf(home);
  if (up !== undefined) {
    return readRunFile(home) === undefined
      ? unsure(
          'home',
          `${home}: leasehold up is starting, as process ${String(up.pid)}`,
          'Wait a moment.',
        )
      : well('home', `${home}: leasehold up runs as process ${String(up.pid)}`);
  }
  if (readRunFile(home) !== undefined) {
    return wrong(
      'home',
      `${runFilePath(home)} exists, but leasehold up was killed`,
      'Start it again: it ends leftover processes, and keeps the data.',
    );
  }
  return skipped('home', `${home}: leasehold up does not run`);
}

/** The console that browsers are sent to, and whether it reaches its controller. */
async function examineConsole(config: CliConfig): Promise<Finding> {
  const running = config.urls === null ? readRunFile(config.home)?.consoleUrl : null;
  const url = config.consoleOrigin ?? running ?? null;
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
