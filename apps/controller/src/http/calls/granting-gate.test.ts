import { describe, expect, test } from 'vitest';
import { createGrantingGate, type GatedConnection, type GrantingGate } from './call-scheduler.ts';
import type { WireCall } from './inbox.ts';

interface Stage {
  readonly gate: GrantingGate;
  readonly begun: string[];
  readonly refused: string[];
  isPressed: boolean;
  connection(principal: string): GatedConnection;
  /** Lets time pass, and the gate look after what it keeps. */
  passes(ms: number): void;
}

function openStage(): Stage {
  let nowMs = 0;
  let looks: (() => void)[] = [];
  const stage: Stage = {
    begun: [],
    refused: [],
    isPressed: false,
    gate: createGrantingGate({
      nowMs: () => nowMs,
      isPressed: () => stage.isPressed,
      after: (_ms, look) => looks.push(look),
      onRefusal: () => undefined,
    }),
    connection: (principal) => ({
      use: { principal, role: 'client' },
      begin: (call) => stage.begun.push(String(call.id)),
      refuse: (call, error) =>
        stage.refused.push(`${String(call?.id)} ${error.code} ${String(error.retryable)}`),
    }),
    passes(ms) {
      nowMs += ms;
      const due = looks;
      looks = [];
      for (const look of due) look();
    },
  };
  return stage;
}

const call = (id: string, path = 'leases.acquireMany', itemCount = 1): WireCall => ({
  id,
  params: { path, input: { items: new Array<null>(itemCount).fill(null) } },
});

describe('granting gate', () => {
  test('without pressure a call begins at once', () => {
    const stage = openStage();

    stage.gate.begin(stage.connection('a'), call('1'), 0);

    expect(stage.begun).toEqual(['1']);
  });

  test('under pressure a call that asks for a grant is refused within 30 ms, to be tried again', () => {
    const stage = openStage();
    stage.isPressed = true;

    stage.gate.begin(stage.connection('a'), call('1'), 0);
    stage.passes(10);
    const early = [...stage.refused];
    stage.passes(20);

    expect(early).toEqual([]);
    expect(stage.refused).toEqual(['1 controller.overloaded true']);
    expect(stage.begun).toEqual([]);
  });

  test('renewals, releases and reads pass under pressure', () => {
    const stage = openStage();
    stage.isPressed = true;

    for (const path of ['leases.heartbeat', 'leases.releaseMany', 'keys.renew', 'keys.get']) {
      stage.gate.begin(stage.connection('a'), call(path, path), 0);
    }

    expect(stage.begun).toHaveLength(4);
  });

  test('when the pressure is over, kept calls begin, and principals take turns', () => {
    const stage = openStage();
    stage.isPressed = true;
    for (const id of ['g1', 'g2', 'g3']) stage.gate.begin(stage.connection('greedy'), call(id), 0);
    stage.gate.begin(stage.connection('modest'), call('m1'), 0);

    stage.isPressed = false;
    stage.passes(10);

    expect(stage.begun).toEqual(['g1', 'm1', 'g2', 'g3']);
  });

  test('only so many grants are let through at once, because the pressure shows later', () => {
    const stage = openStage();
    stage.isPressed = true;
    for (let id = 0; id < 10; id += 1) {
      stage.gate.begin(stage.connection('a'), call(String(id), 'leases.acquireMany', 200), 0);
    }

    stage.isPressed = false;
    stage.passes(1);

    expect(stage.begun).toEqual(['0']);
  });

  test('a burst that is too large for one turn begins in the next ones, however slow they are', () => {
    const stage = openStage();
    for (let id = 0; id < 8; id += 1) {
      stage.gate.begin(stage.connection('a'), call(String(id), 'leases.acquireMany', 200), 0);
    }
    const first = [...stage.begun];

    for (let turn = 0; turn < 7; turn += 1) stage.passes(100);

    expect(first).toEqual(['0']);
    expect(stage.begun).toEqual(['0', '1', '2', '3', '4', '5', '6', '7']);
    expect(stage.refused).toEqual([]);
  });

  test('more than a burst is refused in time, even if the database keeps up', () => {
    const stage = openStage();
    for (let id = 0; id < 20; id += 1) {
      stage.gate.begin(stage.connection('a'), call(String(id), 'leases.acquireMany', 200), 0);
    }

    stage.passes(25);

    expect(stage.begun).toEqual(['0']);
    expect(stage.refused).toHaveLength(19);
  });

  test('what one principal asks for too much of refuses nobody else, however slow the turns are', () => {
    const stage = openStage();
    for (let id = 0; id < 20; id += 1) {
      stage.gate.begin(stage.connection('a'), call(String(id), 'leases.acquireMany', 200), 0);
    }
    stage.gate.begin(stage.connection('b'), call('b', 'leases.acquire'), 0);

    for (let turn = 0; turn < 2; turn += 1) stage.passes(100);

    expect(stage.begun).toContain('b');
    expect(stage.refused).not.toContainEqual(expect.stringMatching(/^b /u));
  });

  test.each([
    ['parsed', (it: WireCall) => it],
    ['unparsed', (it: WireCall) => ({ ...it, unread: ' '.repeat(4_000_000) })],
  ])('a %s call of more items than it may have counts for no more', (_, as) => {
    const stage = openStage();
    stage.gate.begin(stage.connection('a'), call('first', 'leases.acquireMany', 200), 0);
    stage.gate.begin(stage.connection('a'), as(call('large', 'leases.acquireMany', 100_000)), 0);
    stage.gate.begin(stage.connection('a'), call('last', 'leases.acquireMany', 100), 0);

    for (let turn = 0; turn < 3; turn += 1) stage.passes(100);

    expect(stage.begun).toContain('last');
    expect(stage.refused).not.toContainEqual(expect.stringContaining('overloaded'));
  });

  test('a call that was not parsed is parsed when it begins, and refused if it cannot be', () => {
    const stage = openStage();
    stage.isPressed = true;
    const whole = JSON.stringify(call('7'));
    stage.gate.begin(stage.connection('a'), { ...call('7'), unread: whole }, 0);
    stage.gate.begin(stage.connection('a'), { ...call('8'), unread: whole.slice(1) }, 0);

    stage.isPressed = false;
    stage.passes(1);

    expect(stage.begun).toEqual(['7']);
    expect(stage.refused).toEqual(['8 request.invalid false']);
  });

  test('while calls are kept, a later one does not overtake them', () => {
    const stage = openStage();
    stage.isPressed = true;
    stage.gate.begin(stage.connection('a'), call('1'), 0);

    stage.isPressed = false;
    stage.gate.begin(stage.connection('a'), call('2'), 0);
    const before = [...stage.begun];
    stage.passes(1);

    expect(before).toEqual([]);
    expect(stage.begun).toEqual(['1', '2']);
  });

  test('the calls of a connection that is closed are forgotten', () => {
    const stage = openStage();
    stage.isPressed = true;
    const connection = stage.connection('a');
    stage.gate.begin(connection, call('1'), 0);

    stage.gate.forget(connection);
    stage.passes(100);

    expect(stage.refused).toEqual([]);
    expect(stage.begun).toEqual([]);
  });
});
