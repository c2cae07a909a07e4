import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KEY_LADDERS } from '@leasehold/keys-core';
import { expect, onTestFinished, test } from 'vitest';
import { parseConfig } from '../config.ts';
import {
  databaseFindings,
  examine,
  examineDatacenters,
  examineHome,
  ladderFindings,
} from './examine.ts';

async function serverThatSays(status: number, body: string): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(status).end(body);
  });
  onTestFinished(() => void server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

const NOBODY = 'http://127.0.0.1:1';

test('each member of etcd and each peer is checked, and every problem has advice', async () => {
  const healthy = await serverThatSays(200, '{"health":"true","reason":""}');
  const leaderless = await serverThatSays(503, '{"health":"false","reason":"RAFT NO LEADER"}');
  const peer = await serverThatSays(200, 'ok');

  const findings = await examineDatacenters(
    parseConfig({
      LEASEHOLD_DATACENTER: 'dc1',
      LEASEHOLD_ETCD: [healthy, leaderless, NOBODY].join(','),
      LEASEHOLD_PEERS: `dc2=${peer},dc3=${NOBODY}`,
      LEASEHOLD_PEER_TOKEN: `lh_${'s'.repeat(43)}`,
    }),
  );

  expect(findings.map(({ subject, state }) => [subject, state])).toEqual([
    ['etcd', 'well'],
    ['etcd', 'wrong'],
    ['etcd', 'wrong'],
    ['peer dc2', 'well'],
    ['peer dc3', 'wrong'],
  ]);
  for (const { state, advice } of findings) if (state === 'wrong') expect(advice).toBeTruthy();
});

test('of an etcd without a leader the doctor says its reason, and what to look at', async () => {
  const leaderless = await serverThatSays(503, '{"health":"false","reason":"RAFT NO LEADER"}');

  const [finding] = await examineDatacenters(parseConfig({ LEASEHOLD_ETCD: leaderless }));

  expect(finding?.text).toMatch(/not healthy: RAFT NO LEADER$/u);
  expect(finding?.advice).toContain('a majority of members');
});

test.each([200, 503])(
  'a server that answers %i but is not etcd is reported as wrong',
  async (status) => {
    const web = await serverThatSays(status, '<html></html>');

    const [finding] = await examineDatacenters(parseConfig({ LEASEHOLD_ETCD: web }));

    expect(finding).toMatchObject({
      state: 'wrong',
      advice: expect.stringContaining('is it an etcd') as string,
    });
  },
);

test('certificates that cannot be read are reported before any request is sent', async () => {
  const [finding] = await examineDatacenters(
    parseConfig({ LEASEHOLD_ETCD: 'https://127.0.0.1:1', LEASEHOLD_ETCD_CA_FILE: '/no/such/ca' }),
  );

  expect(finding).toMatchObject({ subject: 'etcd', state: 'wrong' });
  expect(finding?.text).toContain('/no/such/ca');
});

test('without etcd there is nothing to check', async () => {
  expect(await examineDatacenters(parseConfig({}))).toMatchObject([{ state: 'skipped' }]);
});

test('a database that accepts connections and never answers is a finding', async () => {
  const silent = createTcpServer((socket) => socket.resume()).listen(0, '127.0.0.1');
  onTestFinished(() => void silent.close());
  await once(silent, 'listening');
  const place = `127.0.0.1:${String((silent.address() as AddressInfo).port)}`;

  const findings = await databaseFindings(
    parseConfig({ DATABASE_URL: `postgresql://nobody@${place}/none` }),
    50,
  );

  expect(findings).toMatchObject([
    { subject: 'database', state: 'wrong', text: expect.stringContaining(place) as string },
  ]);
});

test('what a killed `leasehold up` left is wrong only where commands talk to it', async () => {
  const home = await mkdtemp(join(tmpdir(), 'leasehold-home-'));
  onTestFinished(() => rm(home, { recursive: true }));
  await writeFile(join(home, 'run.json'), '{}');

  const local = examineHome(parseConfig({ LEASEHOLD_HOME: home }));
  const remote = examineHome(parseConfig({ LEASEHOLD_HOME: home, LEASEHOLD_URL: NOBODY }));

  expect([local.state, remote.state]).toEqual(['wrong', 'unsure']);
});

test.each(['run.json', 'up.lock'])(
  'a home whose %s cannot be read is one finding of several',
  async (name) => {
    const home = await mkdtemp(join(tmpdir(), 'leasehold-home-'));
    onTestFinished(() => rm(home, { recursive: true }));
    // As one of another user, which root can read.
    await mkdir(join(home, name));
    const of = { LEASEHOLD_HOME: home, XDG_CONFIG_HOME: home };

    const local = await examine(of);
    const remote = await examine({
      ...of,
      LEASEHOLD_URL: NOBODY,
      LEASEHOLD_TOKEN: `lh_${'x'.repeat(43)}`,
    });

    const stateOf = (findings: typeof local, what: string): string | undefined =>
      findings.find(({ subject }) => subject === what)?.state;
    expect([stateOf(local, 'home'), stateOf(remote, 'home')]).toEqual(['wrong', 'unsure']);
    expect(local.find(({ subject }) => subject === 'home')?.text).toContain(name);
    expect(stateOf(remote, 'controller')).toBe('wrong');
  },
);

test('reports controllers that give keys different ladders, and nothing when they agree', () => {
  const { standard, fast } = KEY_LADDERS;

  expect(ladderFindings([fast, standard])).toMatchObject([
    { state: 'unsure', text: expect.stringContaining('6 s and 60 s') as string },
  ]);
  expect(ladderFindings([standard])).toEqual([]);
});
