import { createControllerClient } from '@leasehold/client';
import { LeaseError, NOTHING_MISSING } from '@leasehold/keys-core';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { controllerThatAnswers } from '../testing/in-process.ts';
import {
  crashLoopFindings,
  droneFindings,
  engineFindings,
  examineController,
  type Finding,
  gatewayAddressFinding,
  isolationFindings,
  reportFindings,
} from './controller-check.ts';

const drone = { droneId: 'drone-1', status: 'ready' } as const;
const full = {
  user: 'own',
  pidNamespace: true,
  privateProc: true,
  hiddenHome: true,
  noNewPrivs: true,
  detail: NOTHING_MISSING,
} as const;

describe('the doctor on the isolation of a drone', () => {
  test('reports nothing about a machine that provides everything', () => {
    expect(isolationFindings({ ...drone, isolation: full })).toEqual([]);
  });

  test('reports it as wrong when programs can read the token of the drone', () => {
    const isolation = {
      ...full,
      user: 'shared',
      privateProc: false,
      detail: 'missing: x',
    } as const;

    const [finding] = isolationFindings({ ...drone, isolation });

    expect(finding).toMatchObject({ state: 'wrong', subject: 'isolation of drone-1' });
    expect(finding?.text).toMatch(/read its token; missing: x/u);
    expect(finding?.advice).toMatch(/docs\/operate\/isolation\.md/u);
  });

  test.each([
    ['users of their own are missing', { ...full, user: 'shared', detail: 'missing: y' } as const],
    ['no_new_privs is missing', { ...full, noNewPrivs: false, detail: 'missing: y' }],
    ['limits are missing', { ...full, detail: 'missing: control groups' }],
    ['something else is said', { ...full, detail: 'no control groups' }],
    ['the drone does not say', null],
  ])('reports it as unsure when %s', (_what, isolation) => {
    expect(isolationFindings({ ...drone, isolation })).toMatchObject([{ state: 'unsure' }]);
  });

  test.each(['lost', 'stopped'] as const)('reports nothing about a drone that is %s', (status) => {
    expect(isolationFindings({ ...drone, status, isolation: null })).toEqual([]);
  });
});

const command = { name: 'room', allowArgs: false, allowEnv: [] };
const container = { ...command, name: 'box', image: 'room:1' };
const offering = { droneId: 'drone-1', status: 'ready' as const, programs: [command, container] };

describe('the doctor on the container engine of a drone', () => {
  test('reports nothing where no program is a container', () => {
    expect(engineFindings({ ...offering, programs: [command], engine: null })).toEqual([]);
  });

  test('reports that it answers', () => {
    expect(engineFindings({ ...offering, engine: { problem: null } })).toMatchObject([
      { state: 'well', subject: 'container engine of drone-1' },
    ]);
  });

  test('reports it as wrong when it does not answer, with what to do', () => {
    const [finding] = engineFindings({ ...offering, engine: { problem: 'it does not answer' } });

    expect(finding).toMatchObject({ state: 'wrong', text: 'it does not answer' });
    expect(finding?.advice).toMatch(/engine\.socket/u);
  });

  test('is unsure before the drone has asked it', () => {
    expect(engineFindings({ ...offering, engine: null })).toMatchObject([{ state: 'unsure' }]);
  });

  test.each(['lost', 'stopped'] as const)('reports nothing about a drone that is %s', (status) => {
    expect(engineFindings({ ...offering, status, engine: { problem: 'x' } })).toEqual([]);
  });
});

describe('the doctor on keys whose backends fail one after another', () => {
  const since = '2026-11-28T12:00:00.000Z';
  const failing = { failures: 5, since, backendId: 'bk-1', reason: 'exited', exitCode: 17 };

  async function findingsOf(
    names: readonly string[],
    key: object | null,
    { nextCursor = null, only = '' }: { nextCursor?: string | null; only?: string } = {},
  ) {
    const { env } = await controllerThatAnswers((path) => {
      if (path.includes('keys.get')) return path.includes(only) ? key : null;
      if (path.includes('backends.get')) return { backendId: 'bk-1', program: 'web' };
      return { items: names.map((name) => ({ namespace: 'game', name })), nextCursor };
    });
    const { LEASEHOLD_URL: url, LEASEHOLD_TOKEN: token } = env;
    const connection = createControllerClient({ url, token, transport: 'http' });
    onTestFinished(() => connection.close());
    return crashLoopFindings(connection.api);
  }

  test('is wrong, with the key, its program, the exit code, since when, and how to read its last lines', async () => {
    const [finding, ...others] = await findingsOf(['alpha', 'alpha'], {
      failing,
      backendStatus: 'terminated',
    });

    expect(others).toEqual([]);
    expect(finding).toMatchObject({ state: 'wrong', subject: 'key game/alpha' });
    expect(finding?.text).toMatch(/^5 backends of web .* since 2026-11-28T12.*: Crashed \(17\)$/u);
    expect(finding?.advice).toContain('`leasehold backends logs bk-1`');
  });

  test.each([
    ['its backend is ready', { failing, backendStatus: 'ready' }],
    ['its failures were forgotten', { failing: null, backendStatus: 'terminated' }],
    ['it has moved away', null],
  ])('reports nothing of a key when %s', async (_when, key) => {
    expect(await findingsOf(['alpha'], key)).toEqual([]);
  });

  test('names ten, and says that there are more', async () => {
    const names = Array.from({ length: 12 }, (_value, at) => `key-${String(at)}`);

    const findings = await findingsOf(names, { failing, backendStatus: 'terminated' });

    expect(findings).toHaveLength(11);
    expect(findings.at(-1)?.text).toMatch(/^2 more/u);
  });

  test('does not say of keys beyond the tenth that they fail when they have recovered', async () => {
    const names = Array.from({ length: 30 }, (_value, at) => `key-${String(at)}`);

    const key = { failing, backendStatus: 'terminated' };
    const findings = await findingsOf(names, key, { only: '"key-29"' });

    expect(findings.map(({ subject }) => subject)).toEqual(['key game/key-29']);
  });

  test.each([
    ['more keys than it looks at', 101, null],
    ['more events than it reads', 1, 'next'],
  ])('is unsure where there are %s', async (_what, count, nextCursor) => {
    const names = Array.from({ length: count }, (_value, at) => `key-${String(at)}`);

    expect(await findingsOf(names, null, { nextCursor })).toMatchObject([
      { subject: 'keys', state: 'unsure' },
    ]);
  });
});

test('the doctor looks at every drone, also at those of a second page', async () => {
  const one = {
    ...offering,
    ...{ isolation: full, engine: null, heartbeatAgeMs: 5, backendCount: 0, capacity: 1 },
  };
  const { env } = await controllerThatAnswers((path) => {
    const isSecond = path.includes('"cursor":"two"');
    const item = isSecond ? { ...one, droneId: 'drone-2', status: 'unreachable' } : one;
    return { items: [item], nextCursor: isSecond ? null : 'two' };
  });
  const { LEASEHOLD_URL: url, LEASEHOLD_TOKEN: token } = env;
  const connection = createControllerClient({ url, token, transport: 'http' });
  onTestFinished(() => connection.close());

  expect(await droneFindings(connection.api, 'here')).toEqual(
    expect.arrayContaining([expect.objectContaining({ subject: 'drone drone-2', state: 'wrong' })]),
  );
});

describe('the doctor on a refusal to list drones', () => {
  const needed = { details: { needed: 'viewer', role: 'drone' } };
  const limited = new LeaseError('auth.forbidden', 'limited to namespaces');

  /** Of everything behind a controller that refuses only this. */
  async function findingsWith(refusal: LeaseError): Promise<Finding[]> {
    const gateways = { url: null, items: [], asOf: '2026-11-28T12:00:10.000Z' };
    const none = { items: [], nextCursor: null, store: { kind: 'postgres' } };
    const holdOff = { reason: 'a restore', endsAt: gateways.asOf, remainingMs: 5_000 };
    const { env } = await controllerThatAnswers((path) => {
      if (path.includes('drones.list')) return refusal;
      if (path.includes('stats.overview')) return limited;
      if (path.includes('gateway.list')) return gateways;
      return path.includes('holdOff.get') ? holdOff : none;
    });
    const { LEASEHOLD_URL: url, LEASEHOLD_TOKEN: token } = env;
    return examineController({ urls: [url], token, from: { urls: 'here', token: 'there' } });
  }

  test.each([
    ['an unknown token', new LeaseError('auth.required'), 'token'],
    ['a token without the role', new LeaseError('auth.forbidden', 'no', needed), 'token'],
    ['a failing controller', new LeaseError('store.unavailable'), 'controller'],
  ])('because of %s names what is wrong, and asks no more', async (_of, refusal, subject) => {
    expect(await findingsWith(refusal)).toMatchObject([
      { subject: 'controller', state: 'well' },
      { subject, state: 'wrong' },
    ]);
  });

  test.each([
    ['too many requests', new LeaseError('request.rate_limited'), 'Try again in a moment.'],
    ['a quota', new LeaseError('quota.exceeded'), 'Try again in a moment.'],
    [
      'a failure inside',
      Object.assign(new LeaseError('internal.error'), { incidentId: 'incident-7' }),
      'Its log has the reason, with the incident incident-7.',
    ],
  ])('because of %s says what to do', async (_of, refusal, advice) => {
    expect(await findingsWith(refusal)).toMatchObject([{}, { subject: 'controller', advice }]);
  });

  test('because of a token that is limited to namespaces skips them, and the rest is looked at', async () => {
    expect(await findingsWith(limited)).toMatchObject([
      { subject: 'controller', state: 'well' },
      { subject: 'grants', state: 'wrong' },
      { subject: 'token', state: 'well' },
      { subject: 'drones', state: 'skipped' },
      { subject: 'gateway', state: 'skipped' },
    ]);
  });
});

describe('the doctor on gateways', () => {
  const url = 'https://rooms.example.com';
  const asOf = '2026-11-28T12:00:10.000Z';
  const gateway = {
    gatewayId: 'gw-1',
    version: '0.1.0',
    connections: 7,
    routes: 3,
    requests: 100,
    isAlive: true,
    startedAt: '2026-11-28T12:00:00.000Z',
    seenAt: '2026-11-28T12:00:09.000Z',
  };

  /** The address of a server that answers everything so. */
  async function answering(status: number, body: string): Promise<string> {
    const server = http.createServer((_request, response) => response.writeHead(status).end(body));
    onTestFinished(() => void server.close());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  }

  test('reports each that reports, and notes each that is silent', () => {
    const silent = { ...gateway, gatewayId: 'gw-2', isAlive: false };
    expect(reportFindings({ url, items: [gateway, silent], asOf })).toMatchObject([
      { subject: 'gateway gw-1', state: 'well' },
      { subject: 'gateway gw-2', state: 'unsure' },
    ]);
  });

  test('reports it as wrong when none reports although there is an address, and nothing without one', () => {
    expect(reportFindings({ url, items: [], asOf })).toMatchObject([{ state: 'wrong' }]);
    expect(reportFindings({ url: null, items: [], asOf })).toMatchObject([{ state: 'skipped' }]);
  });

  test('tells an address that leads to a gateway from one that leads elsewhere, or nowhere', async () => {
    const well = await answering(401, '{"error":{"code":"gateway.token_required"}}');
    const other = await answering(200, '<h1>Welcome</h1>');
    const states = [well, other, 'http://127.0.0.1:1'].map(gatewayAddressFinding);
    expect((await Promise.all(states)).map(({ state }) => state)).toEqual([
      'well',
      'wrong',
      'wrong',
    ]);
  });
});
