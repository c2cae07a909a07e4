import { describe, expect, test } from 'vitest';
import { fire, type Event } from './state-machine.ts';
import { aGate, startService, type Service } from './testing/service.ts';

const WAIT_MS = 10_000;
const nothing = (): Promise<void> => Promise.resolve();

async function aPurchase(): Promise<Service> {
  const service = await startService('state-machine.sql');
  await service.sql(`insert into purchase values ('p', 'new')`);
  return service;
}

const at = ({ coordinator, pool }: Service) => ({ coordinator, pool });
const the = (event: Event, waitMs = WAIT_MS) => ({ purchase: 'p', event, waitMs });

async function stateOf({ sql }: Service): Promise<string | undefined> {
  return (await sql<{ state: string }>('select state from purchase'))[0]?.state;
}

describe('a finite state machine', () => {
  test('a transition is written with the end of its lease', async () => {
    const service = await aPurchase();
    let meanwhile: string | undefined;

    const transition = await fire(at(service), the('pay'), async () => {
      meanwhile = await stateOf(service);
    });

    expect(meanwhile).toBe('new');
    expect(transition).toEqual({ outcome: 'done', from: 'new', to: 'paid' });
    expect(await stateOf(service)).toBe('paid');
    expect(await service.ourSql('select from lease where end_reason is null')).toEqual([]);
  });

  test('only one of two concurrent transitions happens, and the other sees the new state', async () => {
    const service = await aPurchase();
    const second = service.join('second');
    const acts: string[] = [];
    const act = (from: string, to: string): Promise<void> => {
      acts.push(`${from} -> ${to}`);
      return Promise.resolve();
    };

    const transitions = await Promise.all([
      fire(at(service), the('pay'), act),
      fire(at(second), the('pay'), act),
    ]);

    expect(transitions).toContainEqual({ outcome: 'done', from: 'new', to: 'paid' });
    expect(transitions).toContainEqual({ outcome: 'refused', state: 'paid' });
    expect(acts).toEqual(['new -> paid']);
  });

  test('a caller that does not want to wait is told that another transition is under way', async () => {
    const service = await aPurchase();
    const second = service.join('second');
    let during: unknown;

    await fire(at(service), the('pay'), async () => {
      during = await fire(at(second), the('cancel', 0), nothing);
    });

    expect(during).toEqual({ outcome: 'busy', by: 'first' });
    expect(await stateOf(service)).toBe('paid');
  });

  test('an act that fails changes no state, and the next event may happen', async () => {
    const service = await aPurchase();
    const failure = new Error('the card was refused');

    await expect(fire(at(service), the('pay'), () => Promise.reject(failure))).rejects.toBe(
      failure,
    );

    expect(await stateOf(service)).toBe('new');
    expect(await fire(at(service), the('cancel'), nothing)).toMatchObject({ to: 'cancelled' });
  });

  test('C20 a transition that lost its lease writes nothing over its successor’s state', async () => {
    const service = await aPurchase();
    const second = service.join('second');
    const acting = aGate();
    const goOn = aGate();
    const late = fire(at(service), the('pay'), () => {
      acting.open();
      return goOn.opened;
    });
    await acting.opened;
    await service.letLeasesExpire();

    const next = await fire(at(second), the('cancel'), nothing);
    goOn.open();

    expect(next).toMatchObject({ outcome: 'done', to: 'cancelled' });
    expect(await late).toEqual({ outcome: 'lost' });
    expect(await stateOf(service)).toBe('cancelled');
  });
});
