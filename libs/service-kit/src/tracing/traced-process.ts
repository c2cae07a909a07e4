import type { Environment } from '../environment.ts';
import type { Logger } from '../log/logger.ts';

/** What a process that may send traces is called. */
export interface TracedProcess {
  /** `service.name`, unless `OTEL_SERVICE_NAME` names another. */
  readonly name: string;
  readonly version: string;
  readonly environment: Environment;
  readonly log: Logger;
}

/** Traces that are being sent. */
export interface Tracing {
  /** Sends what was not sent yet, within a bounded time. Never throws. */
  stop(): Promise<void>;
}
