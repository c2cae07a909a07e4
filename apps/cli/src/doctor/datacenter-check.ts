import { readFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { shownUrl } from '@leasehold/service-kit';
import type { CliConfig, EtcdConfig } from '../config.ts';
import { skipped, well, wrong, type Finding } from './finding.ts';

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
    const body = await ask(new URL('/health', endpoint), files);
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
    await ask(new URL('/healthz', url), {});
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
function ask(url: URL, files: RequestOptions): Promise<string> {
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
  if (!(error instanceof Error)) return String(error);
  return error.message || ('code' in error ? String(error.code) : error.name);
}
