/** Whatever a caller sends, the answer is about its input, and never a 500. */
import { PROCEDURES } from '@leasehold/api';
import { someOf, waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { oddInputs, withoutCursor } from '../testing/odd-values.ts';
import { openSocket, type RawSocket } from '../testing/raw-socket.ts';
import { rightInputs } from '../testing/right-inputs.ts';
import { startTestController, type TestController } from '../testing/test-controller.ts';
import { startTestDrone, type TestDrone } from '../testing/test-drone.ts';
import { call, input as queryOf, mutate } from '../testing/wire.ts';

const TYPES = Object.fromEntries([...PROCEDURES].map(([path, { type }]) => [path, type]));

const OF_DRONES = [
  'keys.renew',
  'backends.report',
  'drones.heartbeat',
  'drones.goodbye',
  'drones.ack',
  'drones.answer',
];

const OF_GATEWAYS = ['gateway.route', 'gateway.handOver', 'gateway.sync'];

/**
 * There are thousands of odd inputs. It divides the length of no list of values (they have 9, 15, 16 and 25), so that
 * neighbours get different ones.
 */
const GATE_ONE_OF = 11;

async function socketsOf(on: TestController) {
  const open = async (made: Promise<{ secret: string }>): Promise<RawSocket> =>
    openSocket(on, (await made).secret);
  const admin = await open(on.token('admin'));
  const drone = await open(on.token('drone'));
  const gateway = await open(on.token('gateway'));
  const newDrone = await open(on.token('drone', { droneId: 'd8' }));
  return (path: string): RawSocket => {
    if (path === 'drones.session') return newDrone;
    if (OF_GATEWAYS.includes(path)) return gateway;
    return OF_DRONES.includes(path) ? drone : admin;
  };
}

/** No two calls of a socket have one id: a subscription may answer once more after it was stopped. */
let nextId = 1;

/** Sends each input, and gives the codes of the answers, in the order of the inputs. */
async function answersTo(
  raw: RawSocket,
  path: string,
  inputs: readonly string[],
): Promise<(string | undefined)[]> {
  const firstId = nextId;
  nextId += inputs.length;
  for (const [at, input] of inputs.entries()) {
    const id = String(firstId + at);
    const call = `{"id":${id},"method":"${String(TYPES[path])}"`;
    raw.socket.send(`${call},"params":{"path":"${path}","input":${input}}}`);
    if (TYPES[path] === 'subscription') {
      raw.socket.send(`{"id":${id},"method":"subscription.stop"}`);
    }
  }
  const answers = await waitUntil(
    () => {
      if (raw.closedWith() !== undefined) {
        throw new Error(`${path}: the socket was closed with ${String(raw.closedWith())}`);
      }
      const own = raw.replies.filter(({ id }) => id !== null && id >= firstId);
      const byId = new Map(own.toReversed().map((reply) => [reply.id, reply]));
      return byId.size === inputs.length ? byId : undefined;
    },
    { what: `${String(inputs.length)} answers of ${path}`, timeoutMs: 30_000 },
  );
  raw.replies.length = 0;
  return inputs.map((_, id) => answers.get(firstId + id)?.error?.data.leaseholdCode);
}

/** The same for the procedures of peers, which may call only over HTTP. */
async function answersToPeer(
  on: TestController,
  path: string,
  inputs: readonly string[],
): Promise<(string | undefined)[]> {
  const { secret } = await on.token('peer');
  const codes: (string | undefined)[] = [];
  for (const json of inputs) {
    const isQuery = TYPES[path] === 'query';
    const { body } = isQuery
      ? await call(on, `/trpc/${path}${queryOf(JSON.parse(json))}`, { secret })
      : await call(on, `/trpc/${path}`, { body: json, secret });
    codes.push(body.error?.data.leaseholdCode);
  }
  return codes;
}

/** A backend that its drone may report on. */
async function aBackend(on: TestController, drone: TestDrone, name: string) {
  const { secret } = await on.token('client');
  const input = { key: { name }, spawn: { program: 'room' } };
  const { backendId } = (await mutate(on, 'keys.connect', { secret, input })) as {
    backendId: string;
  };
  const session = { droneId: 'd1', clockId: drone.clockId, session: drone.session() };
  return { backendId, session };
}

describe('every procedure', () => {
  test(
    'answers any input, however odd the value of one field is, and never with a 500',
    { timeout: 120_000 },
    async () => {
      const gateway = { url: 'https://rooms.example.com', hosts: null };
      const on = await startTestController({ gateway });
      const { backendId, session } = await aBackend(on, await startTestDrone(on), 'odd');
      const socketOf = await socketsOf(on);
      const inputs = await rightInputs(session, backendId);
      const failures: string[] = [];

      for (const [from, [path, input]] of Object.entries(inputs).entries()) {
        const sent = [{ what: 'all right', json: JSON.stringify(withoutCursor(input)) }];
        sent.push(...someOf(oddInputs(input), from, GATE_ONE_OF));
        const jsons = sent.map(({ json }) => json);
        const [rightCode, ...codes] = path.startsWith('peer.')
          ? await answersToPeer(on, path, jsons)
          : await answersTo(socketOf(path), path, jsons);
        // Otherwise a mistake in the right input would hide the answers to the odd ones.
        if (rightCode === 'request.invalid') failures.push(`${path}: a right input is refused`);
        const failed = sent.filter((_, at) => codes[at - 1] === 'internal.error');
        failures.push(...failed.map(({ what }) => `${path}: ${what}`));
      }

      expect(failures).toEqual([]);
      expect(Object.keys(inputs).sort()).toEqual(Object.keys(TYPES).sort());
    },
  );

  test('an exit code that is no 32-bit number is refused, and the report with a right one is recorded', async () => {
    const on = await startTestController();
    const drone = await startTestDrone(on);
    const { backendId, session } = await aBackend(on, drone, 'ends');
    const { secret } = await on.token('drone');
    const report = (exitCode: number): Promise<unknown> => {
      const said = { ...session, backendId, status: 'terminated', reason: 'exited', exitCode };
      return mutate(on, 'backends.report', { secret, input: said });
    };

    expect(await report(2 ** 31)).toBe('request.invalid');
    expect(await report(-(2 ** 31) - 1)).toBe('request.invalid');
    expect(await report(-(2 ** 31))).toEqual({ outcome: 'recorded' });
  });
});
