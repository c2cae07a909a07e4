/**
 * Many agents as they ship, each with a connection and a simulated warden of its own, in one process: to
 * see what they do to a controller. `many-agents-main.mjs SETTINGS`, as JSON.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { systemIds } from '@leasehold/service-kit';
import { createBootClock } from '@leasehold/service-kit/boot-clock';
import { DroneAgent } from '../agent/agent.ts';
import { TrpcControllerLink } from '../agent/controller-link.ts';
import { loadDroneConfig, type Log } from '../config.ts';
import { SimulatedWarden } from './simulated-warden.ts';

export interface ManyAgentsSettings {
  /** A folder of the test's own. */
  readonly folder: string;
  readonly controllerUrls: readonly string[];
  /** The drone of each agent. */
  readonly drones: readonly { readonly droneId: string; readonly token: string }[];
  readonly program: string;
}

const settings = JSON.parse(process.argv[2] ?? '{}') as ManyAgentsSettings;
const clock = createBootClock();
const random = (): number => systemIds().random();
/** Only what is wrong. */
const log: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: (facts, text) => console.log(text, facts),
};

const wardens: SimulatedWarden[] = [];
for (const { droneId, token } of settings.drones) {
  const stateDir = path.join(settings.folder, droneId);
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const file = path.join(stateDir, 'drone.json');
  writeFileSync(
    file,
    JSON.stringify({
      ...{ droneId, stateDir, controllerUrls: settings.controllerUrls },
      programs: { [settings.program]: { command: 'on-paper', readiness: { type: 'none' } } },
    }),
  );
  const config = loadDroneConfig(file, { LEASEHOLD_TOKEN: token });
  const warden = new SimulatedWarden(() => clock.nowMs());
  wardens.push(warden);
  const link = new TrpcControllerLink({ url: config.controllerUrls, token, random });
  const agent = new DroneAgent({
    ...{ config, clock, log, random, link, version: '0.0.0', entry: file },
    ...{ inheritedEnv: {}, wardens: warden },
  });
  void agent.start();
}
clock.onTick(() => {
  for (const warden of wardens) warden.tick();
});
process.once('disconnect', () => process.exit(1));
process.once('SIGTERM', () => process.exit(0));
process.send?.({ type: 'ready' });
