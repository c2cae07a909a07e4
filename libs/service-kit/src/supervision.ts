/** How a process that dies is started again. */
export {
  deathOf,
  deathText,
  failedStart,
  type Death,
  type DeathCause,
} from './supervision/death.ts';
export {
  keepRunning,
  systemSupervision,
  type Running,
  type RunningHooks,
  type Start,
  type Supervision,
  type SupervisorTime,
} from './supervision/keep-running.ts';
export { RestartSchedule } from './supervision/restart-schedule.ts';
