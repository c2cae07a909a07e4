import type { Offered, WantedProgram } from '../kernel/drones.ts';
import type { OfferedProgram } from './fleet-views.ts';

/** Names that Leasehold and the loader own: no program may allow a request to set them. */
const FORBIDDEN_ENV = /^(?:LEASEHOLD_.*|PORT|PATH|LD_.*|DYLD_.*|NODE_OPTIONS)$/su;

/** Whether an environment variable may never be set by a request, whatever a program allows. */
export function isForbiddenEnv(name: string): boolean {
  return FORBIDDEN_ENV.test(name);
}

/** Whether a program takes the arguments and the environment of a request. */
export function isSpawnAllowed(
  program: OfferedProgram,
  request: Pick<WantedProgram, 'args' | 'env'>,
): boolean {
  if (request.args.length > 0 && !program.allowArgs) return false;
  return Object.keys(request.env).every(
    (name) => !isForbiddenEnv(name) && program.allowEnv.includes(name),
  );
}

/** Judges requests by what drones offer. */
export function offerOf(programs: readonly OfferedProgram[]): Offered {
  return (wanted) => {
    const named = programs.filter(({ name }) => name === wanted.program);
    if (named.some((program) => isSpawnAllowed(program, wanted))) return 'offered';
    return named.length > 0 ? 'not_allowed' : 'missing';
  };
}
