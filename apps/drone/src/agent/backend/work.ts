import type { CommandStart, ContainerStart } from '../../warden/link/protocol.ts';
import type { CommandConfig } from '../../config.ts';
import type { ProgramPlace } from '../program-place.ts';
import { backendEnv } from './backend-env.ts';
import type { LaunchPlan, RunIdentity } from './run-types.ts';

/** What a backend is started for. */
export interface WorkOrder {
  readonly identity: RunIdentity;
  readonly plan: LaunchPlan;
  readonly keyId: string;
  /** Where the backend is reached. */
  readonly port: number;
}

/** The part of a start that depends on the kind of a program. */
export type WorkFields =
  | Pick<CommandStart, 'user' | 'places' | 'command' | 'args' | 'env' | 'cwd'>
  | Pick<ContainerStart, 'container'>;

export interface PreparedWork {
  /** The image that a container is made of. */
  readonly image: { readonly name: string; readonly id: string } | null;
  fieldsOf(order: WorkOrder): WorkFields;
}

/** A program on this machine now. Each kind of program has its own; all else of a backend is the same. */
export interface Work {
  /** Why it must not be started, in words for an operator; undefined when it may be. */
  readonly refusal: string | undefined;
  /**
   * Resolves when it can be started.
   * @throws {StartFailed} when it cannot.
   */
  prepare(signal: AbortSignal): Promise<PreparedWork>;
}

/** A command of this machine. */
export function commandWork(
  program: CommandConfig,
  place: ProgramPlace,
  inherited: Readonly<Record<string, string | undefined>>,
): Work {
  const { refusal, user, places, command, cwd } = place;
  const fieldsOf = ({ identity, plan, keyId, port }: WorkOrder): WorkFields => ({
    ...{ user, places, command, cwd },
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
    }),
  });
  return {
    refusal: refusal === undefined ? undefined : `the program cannot run here: ${refusal}`,
    prepare: () => Promise.resolve({ image: null, fieldsOf }),
  };
}
