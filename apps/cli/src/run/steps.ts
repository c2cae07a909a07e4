/** A lease that outlives the command that acquired it: for the steps of a job. */
import { constants } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { createLeasehold } from '@leasehold/client';
import { isFencingToken, type RefusalReason, type ReleaseOutcome } from '@leasehold/keys-core';
import { createBootClock } from '@leasehold/service-kit';
import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { CliFailure, EXIT_CODES, refusal, SIGNAL_EXIT_CODE, usageFailure } from '../failures.ts';
import { withDatacenter, type ActOptions } from '../options.ts';
import { detailsText, durationText } from '../output/text.ts';
import { ownHolder } from '../processes.ts';
import { parseScopes, scopesText, scopeText, withScope } from '../scope.ts';
import { type SharingOptions, sharingModeOf, withSharing, withTtlAndWait } from './run.ts';
import { acquire, type Acquired, type LeaseRequest, leaseVariables } from './acquire.ts';

const TTL_MS = 10 * 60_000;

const ACQUIRE_HELP = `
  held=$(leasehold leases acquire deploys/shop --ttl 10m --wait 1h --print-env) || exit
  eval "$held"
  leasehold leases renew "$LEASEHOLD_LEASE_ID" --fencing-token "$LEASEHOLD_FENCING_TOKEN"
  leasehold leases release "$LEASEHOLD_LEASE_ID" --fencing-token "$LEASEHOLD_FENCING_TOKEN"

Several scopes, 64 at most, are acquired together or not at all. Each lease has an id and a token of its own, and is
renewed and released by itself. --json prints a list of them; --print-env is for one.

With --shared the lease is held beside others that share it, and never beside one that holds it alone. With --permit it
is held by one of the permits of its namespace (\`leases permits\`). Both are for all scopes.

Nothing keeps running, so nothing renews the lease: it ends after --ttl, unless \`renew\` is called before.
Only the API token that acquired it can renew and release it. A job that finds it expired must stop: somebody else
may hold it. \`leases run\` holds a lease for one command, renews it, and stops the command in time.

With --print-env two lines are printed that a shell can evaluate, and that $GITHUB_ENV and $GITHUB_OUTPUT take.

SIGINT, SIGTERM and SIGHUP end the wait,
and leave neither a place in line nor a lease. If the id and the token cannot be written, because the disk is full or
nobody reads them, the lease is released, with exit code 1.

Exit codes: 0 granted; 6 somebody else holds it, also after the whole --wait; 2 wrong usage; 3 no controller answers;
5 the token does not allow it; 128 + N if signal N ended the wait.`;

interface AcquireOptions extends ActOptions, SharingOptions {
  readonly namespace?: string;
  readonly ttl: number;
  readonly wait: number;
  readonly holder?: string;
  readonly comment?: string;
  readonly metadata?: string;
  readonly printEnv?: boolean;
}

/** `leasehold leases acquire`, `renew` and `release`. */
export function addSteps(cli: Cli, parent: Command): void {
  addAcquire(cli, parent);
  addRenew(cli, parent);
  addRelease(cli, parent);
}

function addAcquire(cli: Cli, parent: Command): void {
  const command = withScope(
    cli.leaf(parent, 'acquire <scope...>', 'Acquire a lease for the steps of a job, and end'),
  );
  withSharing(withTtlAndWait(command, TTL_MS))
    .option('--holder <holder>', 'the holder that others see; by default USER@HOST')
    .option('--comment <text>', 'the purpose that others see')
    .option('--metadata <json>', 'any JSON up to 16 KiB, which others see')
    .option(
      '--print-env',
      'print LEASEHOLD_LEASE_ID=… and LEASEHOLD_FENCING_TOKEN=…; only with one scope',
    )
    .addHelpText('after', ACQUIRE_HELP)
    .action(async ([first = '', ...others]: string[], options: AcquireOptions) => {
      const scopes = parseScopes([first, ...others], options.namespace);
      if (options.printEnv === true && cli.isJson) {
        throw usageFailure('--json and --print-env exclude each other.');
      }
      if (options.printEnv === true && scopes.length > 1) {
        throw usageFailure(
          '--print-env is for one scope. Use --json for several: it prints a list.',
        );
      }
      await acquireAndEnd(cli, options.printEnv === true, {
        scopes,
        mode: sharingModeOf(options),
        ttlMs: options.ttl,
        waitMs: options.wait,
        holder: options.holder ?? ownHolder(),
        comment: options.comment,
        metadata: options.metadata === undefined ? undefined : metadataOf(options.metadata),
        heldExitCode: EXIT_CODES.held,
        heldHint: 'Nothing was acquired.',
        datacenter: options.datacenter,
      });
    });
}

function metadataOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw usageFailure('--metadata must be JSON, such as \'{"build":7}\'.');
  }
}

/** Acquires a lease and leaves it to whom is told its id and its token. */
async function acquireAndEnd(cli: Cli, isEnv: boolean, request: LeaseRequest): Promise<void> {
  const { urls, token } = cli.access();
  const { scopes } = request;
  const signal = cli.context.signal();
  const clock = createBootClock();
  // Closing it waits for the release of what was given up. It does not release what is held.
  await using leasehold = createLeasehold({ url: urls, token, clock });
  let lease: Acquired;
  try {
    // Over HTTP first, which fails at once when no controller answers. Another datacenter is asked for its lease alone.
    await cli.client().leases.get.query(scopes[0], { signal });
    lease = await acquire(leasehold, request, { signal });
    // Nobody is told of it any more.
    if (signal.aborted) await lease.release('failed', 'given up');
    signal.throwIfAborted();
  } catch (error) {
    if (!signal.aborted) throw error;
    cli.note(`gave up waiting for ${scopesText(scopes)}.`);
    cli.exitCode = SIGNAL_EXIT_CODE + signalNumberOf(signal.reason);
    return;
  }
  showAcquired(cli, isEnv, request, lease);
  // Nobody else knows its token: it would be held until its time is over.
  if (await cli.context.wasAnswerLost()) {
    const outcome = await lease.release('failed', 'output lost');
    const end =
      outcome === 'unknown' ? 'no controller answers: it ends after --ttl' : 'it was released';
    throw refusal(
      'cli.output_lost',
      `The token of ${scopesText(scopes)} could not be written, so nobody has it; ${end}.`,
    );
  }
}

/** Tells what was acquired. */
function showAcquired(cli: Cli, isEnv: boolean, request: LeaseRequest, lease: Acquired): void {
  const { scopes, ttlMs, holder } = request;
  if (isEnv) {
    // A shell evaluates them: neither a UUID nor a whole number has a character that it reads otherwise.
    const lines = Object.entries(leaseVariables(lease.grants)).map(
      ([name, value]) => `${name}=${value}\n`,
    );
    cli.context.stdout(lines.join(''));
    return;
  }
  const remainingMs = Math.floor(lease.remainingMs());
  const grants = lease.grants.map(({ leaseId, fencingToken }, place) => ({
    ...(scopes[place] ?? scopes[0]),
    leaseId,
    fencingToken,
  }));
  const common = { holder, ttlMs, remainingMs };
  const [only, ...others] = grants;
  cli.show(others.length === 0 ? { ...only, ...common } : { leases: grants, ...common }, () =>
    detailsText([
      ...grants.flatMap(({ leaseId, fencingToken, ...scope }): [string, string][] => [
        ['lease', scopeText(scope)],
        ['lease id', leaseId],
        ['fencing token', fencingToken],
      ]),
      ['renew within', durationText(remainingMs)],
    ]),
  );
}

function signalNumberOf(reason: unknown): number {
  const name = typeof reason === 'string' && reason in constants.signals ? reason : 'SIGTERM';
  return constants.signals[name as NodeJS.Signals];
}

interface StepOptions extends ActOptions {
  readonly fencingToken: string;
}

/** Adds what names a grant. */
function withGrant(command: Command): Command {
  return withDatacenter(command).requiredOption('--fencing-token <token>', 'its fencing token');
}

const LOCKED_TRIES_MAX = 10;
const LOCKED_RETRY_MS = 200;

const RENEW_HELP = `
The lease lasts as long as it did when it was acquired, from now on. With exit code 1 and the code lease.lost it is not
held any more: stop what it guards.`;

function addRenew(cli: Cli, parent: Command): void {
  withGrant(
    cli.leaf(parent, 'renew <lease-id>', 'Renew a lease that `leases acquire` has acquired'),
  )
    .addHelpText('after', RENEW_HELP)
    .action(async (leaseId: string, { fencingToken, datacenter }: StepOptions) => {
      const ref = grantRef(leaseId, fencingToken);
      const { leases } = cli.client();
      const renewals = [ref];
      const clock = createBootClock();
      let sentAtMs = clock.nowMs();
      let result;
      // It has no result while its row is locked, by a transaction of its own service for example.
      for (let tries = 0; result === undefined && tries < LOCKED_TRIES_MAX; tries += 1) {
        if (tries > 0) await delay(LOCKED_RETRY_MS);
        sentAtMs = clock.nowMs();
        const answer = await leases.heartbeat.mutate({ localTimeMs: 0, renewals, datacenter });
        [result] = answer.results;
      }
      if (result === undefined) {
        throw refusal(
          'grant.contended',
          'The lease is locked by a transaction: nothing was renewed.',
          'Try again at once: it is still held until its deadline.',
        );
      }
      if (result.outcome === 'failed') {
        const { code, message, retryable } = result.error;
        throw new CliFailure(message, { code, exitCode: EXIT_CODES.refused, retryable });
      }
      if (result.outcome === 'refused') throw lost(leaseId, result.reason);
      // Deadlines are counted from when it was sent.
      const remainingMs = Math.floor(result.deadlines.loseAtMs - (clock.nowMs() - sentAtMs));
      if (remainingMs <= 0) throw lost(leaseId, 'expired');
      const renewed = { ...ref, outcome: result.outcome, remainingMs };
      cli.show(renewed, () => `Renewed: it is held for another ${durationText(remainingMs)}.`);
    });
}

interface ReleaseOptions extends StepOptions {
  readonly failed?: boolean;
  readonly detail?: string;
}

const RELEASE_HELP = `
To release it twice is no error. With exit code 1 and the code lease.lost it had ended before: what it guards may have
run beside the next holder.`;

function addRelease(cli: Cli, parent: Command): void {
  const about = 'Release a lease that `leases acquire` has acquired';
  withGrant(cli.leaf(parent, 'release <lease-id>', about))
    .option('--failed', 'what it was for has failed: kept in the history')
    .option('--detail <text>', 'how it went: kept in the history')
    .addHelpText('after', RELEASE_HELP)
    .action(async (leaseId: string, options: ReleaseOptions) => {
      const { fencingToken, datacenter, failed, detail } = options;
      const ref = grantRef(leaseId, fencingToken);
      const result = failed === true ? 'failed' : 'ok';
      const answer = await cli
        .client()
        .leases.release.mutate({ ...ref, result, detail, datacenter });
      const { outcome } = answer;
      if (outcome !== 'released' && outcome !== 'already_released') throw lost(leaseId, outcome);
      cli.show({ ...ref, outcome }, () =>
        outcome === 'released' ? 'Released.' : 'It was released already.',
      );
    });
}

/** @throws {CliFailure} `cli.usage`. */
function grantRef(leaseId: string, fencingToken: string) {
  if (!/^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/iu.test(leaseId)) {
    throw usageFailure('LEASE-ID must be the id that `leases acquire` has printed.');
  }
  if (!isFencingToken(fencingToken)) {
    throw usageFailure('--fencing-token must be one that `leases acquire` has printed.');
  }
  return { leaseId, fencingToken };
}

const LOST_TEXT: Record<RefusalReason | ReleaseOutcome, string> = {
  expired: 'It has expired, and somebody else may hold it.',
  superseded: 'The fencing token is not the one of this lease, or somebody else holds it now.',
  revoked: 'It was revoked.',
  released: 'It was released.',
  already_released: 'It was released.',
  renewal_blocked: 'It may not be renewed any more: it is being revoked, and ends by itself.',
  not_found:
    'There is no such lease of this API token. Only the token that acquired it may do this.',
};

function lost(leaseId: string, reason: RefusalReason | ReleaseOutcome): CliFailure {
  return new CliFailure(LOST_TEXT[reason], {
    code: 'lease.lost',
    exitCode: EXIT_CODES.refused,
    hint: 'Stop what it guards.',
    details: { leaseId, reason },
  });
}
