import type { CommandConfig } from '../../config.ts';
import { bytesOf } from '@leasehold/api/drone-file';
import type { ProgramPlace } from '../program-place.ts';
import { backendEnv } from './backend-env.ts';
import type { Work, WorkFields, WorkOrder } from './run-types.ts';

/** A command of this machine. */
export function commandWork(
  program: CommandConfig,
  place: ProgramPlace,
  of: {
    readonly inherited: Readonly<Record<string, string | undefined>>;
    readonly capacity: number;
  },
): Work {
  const { inherited, capacity } = of;
  const { refusal, user, places, command, cwd } = place;
  const fieldsOf = ({ identity, plan, keyId, port }: WorkOrder): WorkFields => ({
    ...{ user, places, command, cwd },
    limits: {
      memoryBytes: bytesOf(program.memoryMax),
      pids: program.pidsMax,
      cpus: program.cpuMax ?? null,
      fileBytes: bytesOf(program.fileSizeMax),
      together: Math.max(1, Math.min(program.resources?.instancesMax ?? capacity, capacity)),
    },
    args: [...program.args, ...plan.args],
    env: backendEnv({
      inherited,
      program: program.env,
      requested: plan.env,
      keyName: plan.key.name,
      keyId,
      fencingToken: identity.fencingToken,
      backendId: identity.backendId,
      port,
      portEnv: program.portEnv,
    }),
  });
  return {
    refusal: refusal === undefined ? undefined : `the program cannot run here: ${refusal}`,
    prepare: () => Promise.resolve({ imageId: null, fieldsOf }),
  };
}
