import os from 'node:os';

/** What a replica reads from its environment. */
export interface CronConfig {
  readonly databaseUrl: string;
  readonly leaseholdUrl: string;
  readonly leaseholdToken: string;
  /** The name under which this replica records its runs. */
  readonly replica: string;
  /** When the job is due, in UTC. */
  readonly pattern: string;
  /** How long the others wait for a replica that died: 1 s to 24 h. */
  readonly ttlMs: number;
  /** Who is told of each run, if anybody. */
  readonly notifyUrl: string | undefined;
}

const AT_THREE = '0 3 * * *';
const TTL_MS = 30_000;

export function readConfig(): CronConfig {
  return {
    databaseUrl: required('DATABASE_URL'),
    leaseholdUrl: required('LEASEHOLD_URL'),
    leaseholdToken: required('LEASEHOLD_TOKEN'),
    replica: process.env['REPLICA'] ?? `${os.hostname()}-${String(process.pid)}`,
    pattern: process.env['CRON_PATTERN'] ?? AT_THREE,
    ttlMs: Number(process.env['CRON_TTL_MS'] ?? TTL_MS),
    notifyUrl: process.env['NOTIFY_URL'],
  };
}

function required(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') throw new Error(`${name} is not set`);
  return value;
}
