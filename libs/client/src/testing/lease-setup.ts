import { ManualClock } from '../double/index.ts';
import { LeaseTaker } from '../lease/acquire.ts';
import { Background } from '../lease/calls.ts';
import { Holdings } from '../lease/holdings.ts';
import {
  createLeaseDefinition,
  type LeaseDefinition,
  type LeaseDefinitionOptions,
  type WhenDeclared,
} from '../lease/lease-definition.ts';
import { SimulatedWire } from './simulated-wire.ts';

/** For leases of a wire without a controller, to which nothing is declared. */
export const declaredAtOnce: WhenDeclared = (_definitions, intent, ask) => ask(intent);

/** A client of leases on a clock and a network that the test controls. */
export function setUpLeases(options: { databaseNowMs?: (localMs: number) => number } = {}) {
  const clock = new ManualClock();
  const { databaseNowMs } = options;
  const wire = new SimulatedWire(
    clock,
    databaseNowMs === undefined ? undefined : () => databaseNowMs(clock.nowMs()),
  );
  const background = new Background();
  let idsCount = 0;
  const machine = {
    clock,
    uuid: () => `id-${String((idsCount += 1))}`,
    random: () => 0.5,
  };
  const holdings = new Holdings({ machine, wire, background });
  const taker = new LeaseTaker({
    machine,
    wire,
    background,
    holdings,
    answerMs: 10_000,
    url: 'http://controller',
    beforeAcquire: () => undefined,
  });
  return {
    clock,
    wire,
    background,
    holdings,
    taker,
    define: (definitionOptions: LeaseDefinitionOptions = {}, holder = 'me'): LeaseDefinition =>
      createLeaseDefinition(
        taker,
        holder,
        {
          namespace: ['user', 'update'],
          waitMs: 0,
          ...definitionOptions,
        },
        declaredAtOnce,
      ),
  };
}
