/**
 * The entry of a drone whose machine has a clock of its own: `skewed-main.mjs RATE OFFSET_MS agent …`.
 * Agent and warden read the same clock, as they do on one machine.
 */
import os from 'node:os';
import { createBootClock } from '@leasehold/service-kit/boot-clock';
import { runDroneCommand } from '../drone-command.ts';
import { runWarden } from '../warden/run-warden.ts';

const [rate = '1', offsetMs = '0', role, ...args] = process.argv.slice(2);
const clock = createBootClock(() => Number(offsetMs) + os.uptime() * 1_000 * Number(rate));

if (role === 'warden') {
  const [stateDir = '', searchPath = ''] = args;
  await runWarden({ stateDir, searchPath, clock });
  process.exit(0);
} else {
  const wardenCommand = [process.execPath, process.argv[1] ?? '', rate, offsetMs, 'warden'];
  process.exit(await runDroneCommand({ args, wardenCommand, clock }));
}
