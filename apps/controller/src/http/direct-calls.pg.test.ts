/** Hot calls over a WebSocket are carried out without tRPC: they refuse what tRPC refuses over HTTP, with the same words. */
import { isDirectCall, PROCEDURES } from '@leasehold/api';
import { ROLES, type Role } from '@leasehold/keys-core';
import { someOf, waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { oddInputs } from '../testing/odd-values.ts';
import { openSocket, type RawSocket, type Reply } from '../testing/raw-socket.ts';
import { rightInputs } from '../testing/right-inputs.ts';
import { shareTestController, type TestController } from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { call } from '../testing/wire.ts';

const HOT = [...PROCEDURES.keys()].filter(isDirectCall);

/** A caller of each role, over both transports. `peer` calls over HTTP alone. */
async function callersOf(on: TestController) {
  const callers = ROLES.filter((role) => role !== 'peer').map(async (role) => {
    const { secret } = await on.token(role);
    return [role, { secret, raw: await openSocket(on, secret) }] as const;
  });
  return new Map<Role, { secret: string; raw: RawSocket }>(await Promise.all(callers));
}

/** The inputs that are right for each hot call. */
async function hotInputs(on: TestController): Promise<[string, object][]> {
  const drone = await startTestDrone(on);
  const session = { droneId: 'd1', clockId: drone.clockId, session: drone.session() };
  const inputs = await rightInputs(session, 'b-1');
  return HOT.map((path) => [path, inputs[path] as object]);
}

/** What a caller is told, without what is of this call alone. */
function refusalIn(error: Reply['error']): unknown {
  if (error === undefined) return 'answered';
  const { data, ...rest } = error;
  return { ...rest, data: { ...data, incidentId: null } };
}

let lastId = 0;

async function bothWays(
  on: TestController,
  { secret, raw }: { readonly secret: string; readonly raw: RawSocket },
  { path, json }: { readonly path: string; readonly json: string },
) {
  const overHttp = await call(on, `/trpc/${path}`, { body: json, secret });
  const id = (lastId += 1);
  // As it is written: a number that is too large for JavaScript stays one.
  raw.socket.send(
    `{"id":${String(id)},"method":"mutation","params":{"path":"${path}","input":${json}}}`,
  );
  const direct = await waitUntil(() => raw.replies.find((reply) => reply.id === id), {
    what: `the answer of ${path}`,
  });
  return {
    overHttp: refusalIn(overHttp.body.error),
    direct: refusalIn(direct.error),
  };
}

describe('a hot call', () => {
  /** No test asserts what depends on the grants of another one, or on earlier sessions of `d1`. */
  let on: TestController;
  shareTestController((shared) => {
    on = shared;
  });

  test('is refused to the roles that tRPC refuses it to', async () => {
    const callers = await callersOf(on);
    const inputs = await hotInputs(on);
    const ways: Record<string, Awaited<ReturnType<typeof bothWays>>> = {};
    for (const [role, caller] of callers) {
      for (const [path, input] of inputs) {
        ways[`${role} ${path}`] = await bothWays(on, caller, { path, json: JSON.stringify(input) });
      }
    }

    const forbidden = Object.entries(ways).filter(([, { overHttp }]) =>
      JSON.stringify(overHttp).includes('auth.forbidden'),
    );

    expect(HOT.length).toBeGreaterThan(8);
    expect(forbidden.length).toBeGreaterThan(HOT.length);
    for (const [what, { overHttp, direct }] of forbidden) {
      expect([what, direct]).toEqual([what, overHttp]);
    }
    const others = Object.values(ways).filter((way) => !forbidden.some(([, one]) => one === way));
    expect(JSON.stringify(others.map(({ direct }) => direct))).not.toContain('auth.forbidden');
  });

  test(
    'is refused for the inputs that tRPC refuses, and names the same field',
    { timeout: 120_000 },
    async () => {
      const callers = await callersOf(on);
      const different: unknown[] = [];
      let refusedCount = 0;
      for (const [from, [path, input]] of (await hotInputs(on)).entries()) {
        const role = path.startsWith('leases.') || path === 'keys.connect' ? 'client' : 'drone';
        const caller = callers.get(role);
        if (caller === undefined) throw new Error(`there is no ${role}`);
        const jsons = [
          ...someOf(oddInputs(input), from).map(({ json }) => json),
          '7',
          'null',
          '[1]',
          '"x"',
          '{"no":1}',
        ];
        const ways = await Promise.all(jsons.map((json) => bothWays(on, caller, { path, json })));
        const refused = ways.filter(({ overHttp }) =>
          JSON.stringify(overHttp).includes('request.invalid'),
        );
        refusedCount += refused.length;
        different.push(
          ...refused.filter(
            ({ overHttp, direct }) => JSON.stringify(direct) !== JSON.stringify(overHttp),
          ),
        );
      }

      expect(different).toEqual([]);
      expect(refusedCount).toBeGreaterThan(100);
    },
  );

  test('of a drone that names another drone is refused', async () => {
    const { secret } = await on.token('drone');
    const raw = await openSocket(on, secret);
    const input = { droneId: 'd2', clockId: 'c', localTimeMs: 1, renewals: [] };

    const { overHttp, direct } = await bothWays(
      on,
      { secret, raw },
      {
        path: 'keys.renew',
        json: JSON.stringify(input),
      },
    );

    expect(JSON.stringify(direct)).toContain('A drone may act only for itself.');
    expect(direct).toEqual(overHttp);
  });

  test.each([
    ['a text as its id', { id: 'x' }],
    ['the version of JSON-RPC', { id: 1, jsonrpc: '2.0' }],
    ['neither', { id: 2 }],
  ])('with %s is answered with what was sent', async (_what, said) => {
    const { secret } = await on.token('client');
    const raw = await openSocket(on, secret);
    const input = { leaseId: crypto.randomUUID(), fencingToken: '1', result: 'ok' };

    raw.socket.send(
      JSON.stringify({ ...said, method: 'mutation', params: { path: 'leases.release', input } }),
    );
    const first = await waitUntil(() => raw.replies.find(({ id }) => id === (said.id as unknown)), {
      what: 'the answer',
    });

    expect(first).toMatchObject({ ...said, result: { data: { outcome: 'not_found' } } });
  });
});
