/** What every process of Leasehold needs and no part of its domain. */
export { createBootClock, readBootId, TICK_MS, type TickingClock } from './clock/boot-clock.ts';
export {
  connectionOf,
  databasePlaceOf,
  DEFAULT_SCHEMA,
  plainDatabaseUrl,
  schemaProblem,
  withSchema,
} from './database-url.ts';
export { durationWord, readDuration } from './duration.ts';
export { endProcessAfter } from './end-process.ts';
export { parseEnvironment, type ParsedEnvironment, type Environment } from './environment.ts';
export { AUTH_SECRET, CONSOLE_SECRET, readHomeSecret, type HomeSecret } from './home-secret.ts';
export { jsonOf } from './json.ts';
export { listenProblem } from './listen-problem.ts';
export { createLogger, LOG_LEVELS, type Logger, type LogLevel } from './log/logger.ts';
export { shownUrl } from './shown-url.ts';
export { fileVariableOf, SECRETS } from './secret-files.ts';
export { createShutdown, FAILED_START_MS_MAX } from './shutdown.ts';
export { systemIds } from './system-ids.ts';
