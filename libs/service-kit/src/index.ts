/** What every process of Leasehold needs and no part of its domain. */
export { createBootClock, readBootId, TICK_MS, type TickingClock } from './clock.ts';
export {
  connectionOf,
  databasePlaceOf,
  DEFAULT_SCHEMA,
  plainDatabaseUrl,
  schemaProblem,
  withSchema,
} from './database-url.ts';
export {
  AUTH_SECRET,
  CONSOLE_SECRET,
  durationWord,
  fileVariableOf,
  parseEnvironment,
  readDuration,
  readHomeSecret,
  SECRETS,
  type Environment,
  type HomeSecret,
  type ParsedEnvironment,
} from './environment.ts';
export {
  createLogger,
  jsonOf,
  LOG_LEVELS,
  shownUrl,
  type Logger,
  type LogLevel,
} from './logger.ts';
export { startMemoryRelief } from './memory-relief.ts';
export {
  createShutdown,
  endProcessAfter,
  FAILED_START_MS_MAX,
  listenProblem,
} from './supervision.ts';
export { systemIds } from './system-ids.ts';
