/** What every process of Leasehold needs and no part of its domain. */
export { createBootClock, readBootId, TICK_MS, type TickingClock } from './boot-clock.ts';
export {
  connectionOf,
  databasePlaceOf,
  DEFAULT_SCHEMA,
  schemaProblem,
  searchPathOf,
  withSchema,
  type DatabaseConnection,
  type DatabasePlace,
} from './database-url.ts';
export { parseEnvironment, type Environment, type ParsedEnvironment } from './environment.ts';
export { listenProblem } from './listen-problem.ts';
export {
  createLogger,
  LOG_LEVELS,
  type Logger,
  type LoggerOptions,
  type LogLevel,
} from './log/logger.ts';
export { createRegistry, type Registry } from './metrics.ts';
export { hideSecrets } from './secrets.ts';
export { createShutdown, type Shutdown, type ShutdownOptions } from './shutdown.ts';
export { systemIds, type SystemIds } from './system-ids.ts';
