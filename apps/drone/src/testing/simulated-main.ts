/**
 * The agent as it ships, with simulated backends: to measure what it costs to hold many keys.
 * `simulated-main.mjs agent --config FILE`.
 */
import { createBootClock } from '@leasehold/service-kit/boot-clock';
import { endProcessAfter } from '@leasehold/service-kit/end-process';
import { runDroneCommand } from '../drone-command.ts';
import { keepMemorySmall } from '../drone-program.ts';
import { SimulatedWarden } from './simulated-warden.ts';

keepMemorySmall();
const clock = createBootClock();
const warden = new SimulatedWarden(() => clock.nowMs());
clock.onTick(() => {
  warden.tick();
});
await endProcessAfter(
  runDroneCommand({
    args: process.argv.slice(3),
    wardenCommand: [],
    clock,
    wardens: warden,
  }),
);
