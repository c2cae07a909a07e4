import { createControllerClient } from '@leasehold/client';
import { createLogger } from '@leasehold/service-kit';
import { waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { startTestController, type TestController } from '../testing/test-controller.ts';
import { wanted } from '../testing/wire-leases.ts';
import { input } from '../testing/wire.ts';

type Line = Readonly<Record<string, unknown>>;

/** A controller whose tables are gone, so that every call fails inside, and what it logs about calls. */
async function brokenController(): Promise<{ on: TestController; lines: () => Line[] }> {
  let text = '';
  const destination = { write: (line: string) => void (text += line) };
  const on = await startTestController({
    log: createLogger({ name: 'controller', level: 'debug', destination }),
  });
  const lines = (): Line[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Line)
      .filter(({ msg }) =>
        /^(?:call failed|call refused|an export was cut off)$/u.test(String(msg)),
      );
  return { on, lines };
}

async function breakTables(on: TestController): Promise<void> {
  await on.controller.store.general.$executeRaw`alter table lease rename to gone`;
  await on.controller.store.general.$executeRaw`alter table lease_event rename to gone_too`;
}

test('every line about a request has its id, and the incident that its caller was told', async () => {
  const { on, lines } = await brokenController();
  const { secret } = await on.token('admin');
  const authorization = `Bearer ${secret}`;
  const json = { authorization, 'content-type': 'application/json' };
  const post = (body: object): { method: string; body: string } => ({
    method: 'POST',
    body: JSON.stringify(body),
  });
  await breakTables(on);
  const requests: [string, RequestInit & { headers: Record<string, string> }][] = [
    ['/trpc/leases.list', { headers: { authorization } }],
    ['/trpc/leases.acquire', { headers: json, ...post(wanted()) }],
    [
      '/trpc/leases.acquireMany',
      { headers: json, ...post({ localTimeMs: 1, items: [wanted({ localTimeMs: undefined })] }) },
    ],
    [`/trpc/leases.get${input({})}`, { headers: { authorization } }],
    ['/trpc/leases.list', { headers: {} }],
    ['/trpc/no.such', { headers: { authorization } }],
    ['/export/leases', { headers: { authorization } }],
    ['/api/auth/sign-in/email', { headers: json, ...post({ email: 1 }) }],
    ['/trpc/leases.list', { headers: { authorization, 'x-request-id': 'chosen-by-the.caller_1' } }],
    ['/trpc/leases.list', { headers: { authorization, 'x-request-id': 'bad id\t{"a":1}' } }],
  ];
  const ids: string[] = [];

  for (const [path, init] of requests) {
    const before = lines().length;
    const response = await fetch(`${on.url}${path}`, init);
    const answer = await response.text();
    const requestId = response.headers.get('x-request-id') ?? '';
    ids.push(requestId);
    expect(requestId).toMatch(/^[\w.-]{1,64}$/u);
    for (const line of lines().slice(before)) expect(line).toMatchObject({ requestId });
    const incidentId = /"incidentId":"([\w-]+)"/u.exec(answer)?.[1];
    if (incidentId === undefined) continue;
    const failures = lines().slice(before);
    expect(failures.map((line) => line['incidentId'])).toEqual(failures.map(() => incidentId));
  }

  expect(new Set(ids).size).toBe(ids.length);
  expect(ids).toContain('chosen-by-the.caller_1');
  const logged = new Set(lines().map(({ requestId }) => requestId));
  expect(ids.filter((id) => logged.has(id)).length).toBeGreaterThan(5);
  expect(lines().some(({ incidentId }) => typeof incidentId === 'string')).toBe(true);
});

test('calls over one WebSocket share its id, and each failure has its own incident', async () => {
  const { on, lines } = await brokenController();
  const { secret } = await on.token('admin');
  const client = createControllerClient({ url: on.url, token: secret, transport: 'ws' });
  onTestFinished(() => client.close());
  await client.api.session.get.query();
  await breakTables(on);

  const told = await Promise.all(
    [
      client.api.leases.list.query({}),
      client.api.keys.list.query({}),
      client.api.environments.list.query({}),
    ].map(async (call) =>
      call.then(
        () => undefined,
        (error: unknown) => (error as { data?: { incidentId?: string } }).data?.incidentId,
      ),
    ),
  );
  await waitUntil(() => lines().length >= 3);

  expect(new Set(lines().map(({ requestId }) => requestId)).size).toBe(1);
  expect(lines()[0]?.['requestId']).toMatch(/^[\da-f-]{36}$/u);
  expect(
    lines()
      .map(({ incidentId }) => incidentId)
      .toSorted(),
  ).toEqual(told.toSorted());
});
