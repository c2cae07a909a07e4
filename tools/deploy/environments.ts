/** Which variables the containers of deploy may set: those that the configuration of their process reads. */
import { CLI_VARIABLES } from '../../apps/cli/src/config.ts';
import { CONSOLE_VARIABLES } from '../../apps/console/src/server/config.ts';
import { CONTROLLER_VARIABLES } from '../../apps/controller/src/config.ts';
import { DRONE_VARIABLES } from '../../apps/drone/src/config.ts';
import { GATEWAY_VARIABLES } from '../../apps/gateway/src/config.ts';
import { fileVariableOf, SECRETS } from '../../libs/service-kit/src/environment.ts';

/** By what the container runs. */
export const READ_BY = {
  controller: CONTROLLER_VARIABLES,
  console: CONSOLE_VARIABLES,
  migrate: CLI_VARIABLES,
  drone: DRONE_VARIABLES,
  gateway: GATEWAY_VARIABLES,
} as const;
export type Process = keyof typeof READ_BY;

/** What a process reads: its variables, and those that name files of its secrets. */
export function isRead(process: Process, name: string): boolean {
  const read = READ_BY[process];
  const files = SECRETS.filter((secret) => read.includes(secret)).map(fileVariableOf);
  return read.includes(name) || files.includes(name);
}

/** The names that no configuration of these processes reads. */
export function unread(processes: readonly Process[], names: readonly string[]): string[] {
  return names.filter((name) => !processes.some((process) => isRead(process, name)));
}

/** Secrets that are in a file, replaced by ones that are well-formed: the files exist only where it is deployed. */
export function withSecrets(environment: Readonly<Record<string, string>>): Record<string, string> {
  const WELL_FORMED: Readonly<Record<string, string>> = {
    DATABASE_URL: 'postgresql://leasehold:secret@database:5432/leasehold',
    LEASEHOLD_AUTH_SECRET: 's'.repeat(48),
    LEASEHOLD_CONSOLE_SECRET: 'c'.repeat(48),
    LEASEHOLD_TOKEN: `lh_${'t'.repeat(43)}`,
    LEASEHOLD_FIRST_TOKEN: `lh_${'f'.repeat(43)}`,
  };
  return Object.fromEntries(
    Object.entries(environment).map(([name, value]) => {
      const secret = SECRETS.find((one) => fileVariableOf(one) === name);
      return secret === undefined ? [name, value] : [secret, WELL_FORMED[secret] ?? ''];
    }),
  );
}
