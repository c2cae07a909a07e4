import { expect, onTestFinished, test } from 'vitest';
import { ManualClock, settled } from '../double/test-leasehold.ts';
import { Ending } from '../signals.ts';
import type { ControllerApi } from '../transport/controller-client.ts';
import { createLeaseWire } from './lease-wire.ts';

const FAILED = {
  outcome: 'failed',
  error: { code: 'request.outcome_unknown', message: 'lost', retryable: true, details: {} },
};

/** A wire whose controller answers a release when the test wants it. */
function setUp() {
  let answer: (answer: object) => void = () => undefined;
  const mutate = () => new Promise<object>((resolve) => (answer = resolve));
  const api = { leases: { releaseMany: { mutate } } } as unknown as ControllerApi;
  const clock = new ManualClock();
  const machine = { clock, uuid: () => 'id', random: () => 0.5 };
  const reachability = { unreachableSince: () => undefined };
  const wire = createLeaseWire({ api, machine, reachability } as unknown as Parameters<
    typeof createLeaseWire
  >[0]);
  return { wire, clock, answer: (results: object[]) => answer({ results }) };
}

/** What nobody has handled: it would end a process. */
function unhandledRejections(): unknown[] {
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  return unhandled;
}

test('a release that fails after its caller has stopped waiting, or after its call was over, ends no process', async () => {
  const { wire, clock, answer } = setUp();
  const unhandled = unhandledRejections();
  const release = (ending: Ending) =>
    wire.release({ leaseId: 'lease', fencingToken: '1', result: 'ok' }, ending);
  const ending = new Ending();
  const first = release(ending);
  await settled();

  ending.end(new Error('enough'));
  await expect(first).rejects.toThrow('enough');
  answer([FAILED]);
  await settled();
  const second = expect(release(new Ending())).rejects.toMatchObject({
    code: 'request.outcome_unknown',
  });
  await settled();
  await clock.advance(6_000);
  await second;
  answer([FAILED]);
  await settled();

  expect(unhandled).toEqual([]);
});
