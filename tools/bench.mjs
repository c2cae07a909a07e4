/**
 * Measures Leasehold on this machine, against a bare server and plain SQL, `redlock` on Redis and `etcd3`
 * on etcd: `npm run bench`. Redis and etcd are Debian's; root gets them installed, others are told
 * what to install, and everything else is measured without them.
 *
 *   npm run bench                     all of it; half an hour or so
 *   npm run bench -- --quick          a smoke run with small tables: its figures mean nothing
 *   npm run bench -- grants handover  only these; an unknown name lists them all
 *
 * The table is printed; `bench-report` has it as JSON, and as a page with charts.
 *
 * Bundles `tools/bench` the way the apps are bundled, so that what runs is what ships.
 */
import { runBundled } from './build/run-bundled.mjs';

await runBundled('tools/bench', {
  main: 'tools/bench/main.ts',
  'bench-controller': 'tools/bench/rig/bench-controller.ts',
  'floor-server': 'tools/bench/rig/floor-server.ts',
  'echo-server': 'tools/bench/rig/echo-server.ts',
  'soak-client': 'tools/bench/rig/soak-client.ts',
  'load-client': 'tools/bench/rig/load-client.ts',
  'simulated-drone': 'apps/drone/src/testing/simulated-main.ts',
  'simulated-fleet': 'tools/bench/rig/simulated-fleet.ts',
  controller: 'apps/controller/src/main.ts',
  drone: 'apps/drone/src/main.ts',
  gateway: 'apps/gateway/src/main.ts',
  'gateway-room': 'tools/bench/rig/gateway-room.ts',
  'gateway-client': 'tools/bench/rig/gateway-client.ts',
  'bare-proxy': 'tools/bench/rig/bare-proxy.ts',
});
