import { systemIds } from '@leasehold/service-kit';
import { beforeAll, expect, test } from 'vitest';
import { startTestController } from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';

/** A station is a stay in one file, whatever functions of it are called. */
const STATIONS_MAX = 9;

beforeAll(() => {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 100;
  return () => {
    Error.stackTraceLimit = stackTraceLimit;
  };
});

/** The stations of our libraries on the stack of the caller, outermost first. */
function stationsNow(): string[] {
  const frames = (new Error('only for its stack').stack ?? '').split('\n').reverse();
  const files = frames.flatMap(
    (frame) => /libs\/(?:api|keys-core)\/src\/(?<file>[^:]+)/u.exec(frame)?.groups?.['file'] ?? [],
  );
  return files.filter((file, index) => file !== files[index - 1]);
}

test('a connect passes through at most nine stations from its procedure to the backend that it starts', async () => {
  const ids = systemIds();
  const stacks: string[][] = [];
  const on = await startTestController({
    ids: {
      ...ids,
      alphanumeric: (length) => {
        stacks.push(stationsNow());
        return ids.alphanumeric(length);
      },
    },
  });
  await startTestDrone(on);
  const client = await on.client('client');
  stacks.length = 0;

  const answer = await client.keys.connect.mutate({
    key: { name: 'demo' },
    spawn: { program: 'room' },
    idempotencyKey: 'request-1',
  });

  expect(answer).toMatchObject({ spawned: true });
  // Only the backend's id is made of characters, just before the statement that starts the backend.
  expect(stacks).toHaveLength(1);
  const [stack = []] = stacks;
  const stations = [...stack.slice(stack.indexOf('routers/keys-router.ts')), 'keys/sql/spawn.ts'];
  // Those of "Follow a connect" in docs/walkthroughs.md, and what runs a request and a spawn once.
  expect(stations).toEqual([
    'routers/keys-router.ts',
    'routers/recording.ts',
    'reservations/connecting.ts',
    'keys/connect.ts',
    'keys/connect-answers.ts',
    'keys/connect.ts',
    'kernel/requests.ts',
    'keys/start-backend.ts',
    'keys/sql/spawn.ts',
  ]);
  expect(stations.length).toBeLessThanOrEqual(STATIONS_MAX);
});
