import { hostname, userInfo } from 'node:os';
import {
  createLeasehold,
  LeaseHeldError,
  LeaseWaitTimeoutError,
  type Lease,
  type Leasehold,
} from '@leasehold/client';
import { LIMITS } from '@leasehold/keys-core';
import { createBootClock, type TickingClock } from '@leasehold/service-kit';
import type { Cli } from '../cli.ts';
import { scopeText, type Scope } from '../arguments/scope.ts';
import { pathOfPart } from '../sibling-app.ts';
import { commandEnvironment } from './command-environment.ts';
import { startGuard, type GuardLink } from './guard-link.ts';
import { runSignals } from './run-signals.ts';
import {
  endText,
  exitCodeOf,
  goneFailure,
  heldFailure,
  lostFailure,
  notReleasedText,
  stoppingText,
} from './run-text.ts';
import { runUnderLease, type RunEnd } from './run-under-lease.ts';

/** A command and the lease that it runs under. */
export interface RunRequest {
  readonly scope: Scope;
  readonly command: readonly string[];
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly graceMs: number;
  readonly holder: string | undefined;
  readonly comment: string;
  /** What to end with when somebody else holds the lease. */
  readonly heldExitCode: number;
  /** Where the lease is; undefined: in the controller's own datacenter. */
  readonly datacenter: string | undefined;
  /** Whether the command gets the token. */
  readonly isTokenPassed: boolean;
}

/**
 * Takes the lease, runs the command, gives the lease back, and ends with the command's exit code.
 * @throws {CliFailure} when the lease was not granted or was lost, or the command not started.
 */
export async function runWithLease(cli: Cli, request: RunRequest): Promise<void> {
  const { urls, token, from } = cli.access();
  const signals = runSignals(cli.context);
  const clock = createBootClock();
  const guard = startGuard(pathOfPart('cli'), {
    nowMs: () => clock.nowMs(),
    env: {
      ...commandEnvironment(cli.context.environment, request),
      // What is in no variable yet: the command is to call the same controllers.
      ...(request.isTokenPassed && from.urls !== 'LEASEHOLD_URL'
        ? { LEASEHOLD_URL: urls.join(','), LEASEHOLD_TOKEN: token }
        : {}),
    },
  });
  try {
    // Closing it waits for the release of what was given up.
    await using leasehold = createLeasehold({ url: urls, token, clock });
    let lease: Lease;
    try {
      // Over HTTP first, which fails at once when no controller answers.
      const { scope, datacenter } = request;
      await cli
        .client()
        .leases.get.query({ ...scope, datacenter }, { signal: signals.interrupted });
      // Starting the guard must not use up time of the lease.
      await guard.ready();
      lease = await acquire(leasehold, request, {
        signal: signals.interrupted,
        nowMs: () => clock.nowMs(),
      });
    } catch (error) {
      if (signals.interruptedBy === undefined) throw error;
      cli.context.stderr(`leasehold: gave up waiting for ${scopeText(request.scope)}.\n`);
      cli.exitCode = exitCodeOf({ exitCode: null, signal: signals.interruptedBy });
      return;
    }
    signals.passTo(guard);
    const end = await runAndRelease(cli, request, { lease, guard, clock });
    cli.exitCode = exitCodeOf(end);
  } finally {
    guard.close();
  }
}

async function acquire(
  leasehold: Leasehold,
  request: RunRequest,
  { signal, nowMs }: { readonly signal: AbortSignal; readonly nowMs: () => number },
): Promise<Lease> {
  const { scope, ttlMs, comment, datacenter } = request;
  const namespace = scope.namespace === '' ? [] : scope.namespace.split('.');
  const holder = request.holder ?? `${ownUserName()}@${hostname()}/${String(process.pid)}`;
  const kind = leasehold.defineLease(namespace, { ttlMs });
  const endsAtMs = nowMs() + request.waitMs;
  for (;;) {
    // A longer wait is several calls: each takes a place in line of its own.
    const waitMs = Math.min(Math.max(0, endsAtMs - nowMs()), LIMITS.waitMsMax);
    try {
      const wanted = { waitMs: Math.floor(waitMs), signal, holder, comment, datacenter };
      return await kind.acquire(scope.name, wanted);
    } catch (error) {
      if (error instanceof LeaseWaitTimeoutError && nowMs() < endsAtMs) continue;
      if (error instanceof LeaseHeldError || error instanceof LeaseWaitTimeoutError) {
        throw heldFailure(scope, error, request);
      }
      throw error;
    }
  }
}

interface Running {
  readonly lease: Lease;
  readonly guard: GuardLink;
  readonly clock: TickingClock;
}

async function runAndRelease(cli: Cli, request: RunRequest, running: Running): Promise<RunEnd> {
  const { lease } = running;
  const { scope } = request;
  let end: RunEnd | undefined;
  let released: string;
  try {
    end = await runUnderLease({
      ...running,
      command: request.command,
      graceMs: request.graceMs,
      environment: {
        LEASEHOLD_FENCING_TOKEN: lease.fencingToken,
        LEASEHOLD_LEASE_ID: lease.leaseId,
        LEASEHOLD_LEASE_NAMESPACE: scope.namespace,
        LEASEHOLD_LEASE_KEY: scope.name,
      },
      onStopping: (stop, leftMs) => cli.context.stderr(`${stoppingText(scope, stop, leftMs)}\n`),
    });
  } finally {
    const leftMs = lease.remainingMs();
    released = await lease.release(
      end?.exitCode === 0 && end.stop === undefined ? 'ok' : 'failed',
      end === undefined ? 'not started' : endText(end),
    );
    if (released === 'unknown') cli.context.stderr(`${notReleasedText(scope, leftMs)}\n`);
  }
  if (end.stop !== undefined) throw lostFailure(scope, end, end.stop);
  // It ended by itself; the controller knows best whether the lease was still held then.
  if (isGone(released, end)) throw goneFailure(scope, end, released);
  return end;
}

/** A lease that ran out after the command had ended is no loss. */
function isGone(released: string, end: RunEnd): boolean {
  if (released === 'revoked' || released === 'not_found') return true;
  return (released === 'expired' || released === 'superseded') && !end.isInTime;
}

/** The name of the user that runs this process, or its number: containers often run as one that has no name. */
export function ownUserName(read: () => { readonly username: string } = userInfo): string {
  try {
    return read().username;
  } catch {
    return `uid ${String(process.getuid?.() ?? 'unknown')}`;
  }
}
