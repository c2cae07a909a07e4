import type { Ladder, TerminationReason } from '@leasehold/keys-core';
import type { ProgramConfig } from '../../config.ts';
import type { CommandStart, ContainerStart } from '../../warden/link/protocol.ts';
import type { Log } from '../log.ts';
import type { Ports } from './port/ports.ts';
import type { WardenLink } from '../warden-link/warden-link.ts';

/** What the runs of backends need of the agent that has them. */
export interface RunContext {
  /** @throws {WardenLost} while none exists. */
  readonly warden: () => WardenLink;
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly log: Log;
  readonly host: string;
  readonly ports: Ports;
  /** A program as it can be started now. @throws {WardenLost} while no warden exists. */
  readonly workOf: (program: ProgramConfig) => Work;
  /** The last lines that a backend wrote; undefined without any. */
  readonly lastOutput: (backendId: string) => Promise<string | undefined>;
  /** The last report of a backend is answered: nothing is left to do for it. */
  readonly onFinished: (backendId: string) => void;
}

/** What a backend is, in every stage. */
export interface RunIdentity {
  readonly backendId: string;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly programName: string;
  readonly program: ProgramConfig;
  readonly ladder: Ladder;
}

/** What only a backend that is yet to be started has. */
export interface LaunchPlan {
  /** The program is told the name, and an id in place of the namespace: see `keyIdOf`. */
  readonly key: { readonly name: string; readonly namespace: string };
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly lifetimeLimitMs: number | null;
}

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
  | Pick<CommandStart, 'user' | 'places' | 'command' | 'args' | 'env' | 'cwd' | 'limits'>
  | Pick<ContainerStart, 'container'>;

export interface PreparedWork {
  /** The image that a container is made of; null for a command. */
  readonly imageId: string | null;
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

export interface StopRequest {
  readonly mode: 'soft' | 'hard';
  readonly reason: TerminationReason;
  /** The key itself is the reason: only the time from soft to hard is left. */
  readonly isKeyLost: boolean;
}
