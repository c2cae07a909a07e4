import type { Command } from 'commander';

/** Which part of the audit is requested. */
export interface AuditFilters {
  readonly actor?: string;
  readonly action?: string;
  readonly resource?: string;
  readonly from?: string;
  readonly to?: string;
}

/** Adds the filters of a list and of an export of the audit. */
export function withAuditFilters(command: Command): Command {
  return command
    .option('--actor <name>', 'by this actor')
    .option('--action <procedure>', 'of this kind, such as drones.drain')
    .option('--resource <resource>', 'to this: drone:d1, a lease id, or the name of a key')
    .option('--from <instant>', 'from this instant on (ISO-8601)')
    .option('--to <instant>', 'before this instant (ISO-8601)');
}
