/** The gateway's process: configuration, connection to a controller, server, until a signal ends it. */
import { once } from 'node:events';
import {
  createBootClock,
  createLogger,
  createShutdown,
  endProcessAfter,
  FAILED_START_MS_MAX,
  listenProblem,
  systemIds,
} from '@leasehold/service-kit';
import { startTracing } from '@leasehold/service-kit/start-tracing';
import packageJson from '../package.json' with { type: 'json' };
import { processEnvironment, readConfig, type GatewayConfig } from './config.ts';
import { createControllerLink } from './controller-link.ts';
import { startGateway } from './gateway.ts';

/** How long everything may take to end before the process ends without waiting for it. */
const STOP_MS_MAX = 10_000;

async function main(): Promise<undefined> {
  const environment = processEnvironment();
  const config = readConfig(environment);
  const log = createLogger({ name: 'gateway', level: config.logLevel });
  const { version } = packageJson;
  log.info({ version, gatewayId: config.gatewayId }, 'the gateway starts');
  const tracing = await startTracing({ name: 'leasehold-gateway', version, environment, log });
  const shutdown = createShutdown({ timeLimitMs: STOP_MS_MAX, log });
  shutdown.listen();
  shutdown.add('traces', () => tracing.stop());
  const ids = systemIds();
  const link = createControllerLink({
    url: config.controllerUrls,
    token: config.token,
    random: () => ids.random(),
    onConnection: (state) => log.info({ state }, 'connection to the controller'),
  });
  shutdown.add('connection to the controller', () => link.close());
  try {
    const gateway = await startGateway(config, { clock: createBootClock(), link, log, version });
    shutdown.add('gateway', () => gateway.close());
    const { url, metricsUrl } = gateway;
    log.info({ url, metricsUrl }, 'the gateway listens');
    if (!shutdown.begun) process.send?.({ type: 'ready', url, metricsUrl });
    if (!shutdown.signal.aborted) await once(shutdown.signal, 'abort');
  } catch (error) {
    await shutdown.run('a failure', FAILED_START_MS_MAX);
    throw startProblem(error, config);
  }
}

function startProblem(error: unknown, { listen, metricsListen }: GatewayConfig): unknown {
  const { port } = error as { port?: unknown };
  const problem =
    port === metricsListen.port && port !== listen.port
      ? listenProblem(error, metricsListen, 'LEASEHOLD_GATEWAY_METRICS_LISTEN')
      : listenProblem(error, listen, 'LEASEHOLD_GATEWAY_LISTEN');
  return problem === undefined ? error : new Error(problem, { cause: error });
}

void endProcessAfter(main());
