/**
 * Many agents in one process, with simulated backends: what they cost a controller. Argument: a file that lists
 * the configuration files and tokens of the drones. Ends with the process that started it.
 */
import { readFileSync } from 'node:fs';
import { createBootClock, createLogger, systemIds } from '@leasehold/service-kit';
import { DroneAgent } from '../../../apps/drone/src/agent/agent.ts';
import { TrpcControllerLink } from '../../../apps/drone/src/agent/controller-link.ts';
import { loadDroneConfig } from '../../../apps/drone/src/config.ts';
import { SimulatedWarden } from '../../../apps/drone/src/testing/simulated-warden.ts';

interface Drone {
  readonly file: string;
  readonly token: string;
}

process.once('disconnect', () => process.exit(0));
const [list = ''] = process.argv.slice(2);
const drones = JSON.parse(readFileSync(list, 'utf8')) as Drone[];
const clock = createBootClock();
const log = createLogger({ name: 'fleet', level: 'error' });
const ids = systemIds();
const random = (): number => ids.random();
await Promise.all(
  drones.map(async ({ file, token }) => {
    const config = loadDroneConfig(file, {
      LEASEHOLD_TOKEN: token,
      LEASEHOLD_DATACENTER: 'bench',
    });
    const warden = new SimulatedWarden(() => clock.nowMs());
    clock.onTick(() => {
      warden.tick();
    });
    const agent = new DroneAgent({
      config,
      clock,
      log,
      random,
      version: 'bench',
      link: new TrpcControllerLink({ url: config.controllerUrls, token, random }),
      wardens: warden,
      entry: file,
      inheritedEnv: {},
    });
    await agent.start();
  }),
);
process.send?.({ isReady: true });
