import { basename } from 'node:path';
import { Option, type Command } from 'commander';
import { LIMITS, serviceLadder } from '@leasehold/keys-core';
import { durationWord } from '@leasehold/service-kit';
import type { Cli } from '../cli.ts';
import { CliFailure, EXIT_CODES, RUN_EXIT_CODES, usageFailure } from '../failures.ts';
import { assertDuration, type DurationRange, wholeNumberOf, withDuration } from '../options.ts';
import { printable } from '../output/text.ts';
import { findCommand, ownHolder } from '../processes.ts';
import { parseScope, parseScopes, type Scope, withScope } from '../scope.ts';
import type { EnvironmentRequest, SharingMode } from './acquire.ts';
import { runGuard } from './guard.ts';
import { runWithLease } from './run-with-lease.ts';

const HELP = `
  leasehold leases run jobs/nightly -- ./nightly.sh --full

  leasehold leases run accounts/7 accounts/9 -- ./move.sh

Several leases, 64 at most, are held together or not at all; \`--\` is needed then. CMD finds them in LEASEHOLD_LEASES:
a JSON list with the namespace, the key, the leaseId and the fencingToken of each, in the order of the scopes. After the
first one each scope has a "/", unless --namespace is given: /KEY is a key in the root namespace. When one is lost,
CMD is stopped as for a single one. The rest of this help says "the lease" for all of them.

With --shared the lease is held beside others that share it, and never beside one that holds it alone. With --permit it
is held by one of the permits of its namespace (\`leases permits\`). Both are for all scopes.

The lease is renewed while CMD runs. CMD finds LEASEHOLD_FENCING_TOKEN, LEASEHOLD_LEASE_ID,
LEASEHOLD_LEASE_NAMESPACE and LEASEHOLD_LEASE_KEY in its environment. Send the token with every write,
so that the store can refuse it after a later holder has written. CMD does not find LEASEHOLD_TOKEN there,
unless --pass-token is given, nor any other secret of Leasehold's; DATABASE_URL is passed, for CMD may need it.

If the lease cannot be renewed, CMD gets SIGTERM, and SIGKILL before the lease is lost and anybody else
can be granted it. If the lease was revoked, CMD gets SIGKILL at once, or at the next renewal if the
lease is in another --datacenter.

CMD runs in a session of its own. Signals go to the whole session, and what is left of it when CMD ends
is killed. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on. Ctrl-Z stops CMD too, and its lease expires.
With --single-child signals go to CMD alone: for a program that ends its own children, as Terraform its
plugins. SIGKILL goes to the whole session in any case. A shell that waits for a program and has no trap ends
at once, and the program with it: begin it with \`exec\`.
The standard streams are those of CMD. Only problems are written to the standard error.

Exit codes: that of CMD, or 128 + N if signal N ended it; 125 if it was stopped because its lease was
lost. If CMD did not run: 6, or --held-exit, if somebody else holds the lease; 2 for wrong usage; 3 if no
controller answers; 5 if the token does not allow it; 126 if CMD may not be executed, or was not started; 127 if it does not exist; 128 + N if signal N ended
the wait.

A separate process, the guard, enforces the deadline: CMD is stopped in time even if this command is
killed or stopped, or hangs. Not covered: processes that leave CMD's session, as daemons do, and
processes of another user, as with sudo, get no signals. If this command and its guard are killed
together, the kernel kills CMD if \`setpriv\` of util-linux is installed, but not what CMD has started.`;

/** `leasehold leases run`: a command under a lease. */
export function addRun(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'run <scope> <command...>',
    'Hold a lease while a command runs, and end the command before the lease ends',
  );
  withSharing(withRunOptions(withScope(command)))
    .usage('[options] <scope...> -- <command...>')
    .addHelpText('after', HELP)
    .action((first: string, rest: string[], options: RunCommandOptions & SharingOptions) => {
      const { scopeTexts, words } = partsOf(cli.args, first, rest);
      if (options.namespace === undefined) assertNoCommandWord(scopeTexts);
      const scopes = parseScopes(scopeTexts, options.namespace);
      const mode = sharingModeOf(options);
      return runCommand(cli, { scopes, words, options, mode });
    });
}

interface CommandLine {
  readonly scopes: readonly [Scope, ...Scope[]];
  readonly words: readonly string[];
  readonly options: RunCommandOptions;
  readonly mode?: SharingMode | undefined;
  readonly environment?: EnvironmentRequest;
}

async function runCommand(
  cli: Cli,
  { scopes, words, options, mode, environment }: CommandLine,
): Promise<void> {
  const graceMs = checkedGraceMs(options);
  assertRunnable(words[0] ?? '', cli.context.environment['PATH'] ?? '');
  await runWithLease(cli, {
    scopes,
    graceMs,
    environment,
    mode,
    command: words,
    ttlMs: options.ttl,
    waitMs: options.wait,
    holder: options.holder ?? `${ownHolder()}/${String(process.pid)}`,
    heldHint: 'The command was not run.',
    heldExitCode: options.heldExit,
    isTokenPassed: options.passToken === true,
    isSignalledAlone: options.singleChild === true,
    datacenter: options.datacenter,
    comment: options.comment ?? basename(words[0] ?? ''),
  });
}

const ENVIRONMENT_HELP = `
  leasehold env run shop/prod --action deploy --version 1.2.3 --wait 2h --supersede -- ./deploy.sh

As \`leasehold leases run\` does for a lease: the environment is held while CMD runs, and CMD is ended before anybody
else is granted it. CMD finds LEASEHOLD_FENCING_TOKEN, LEASEHOLD_LEASE_ID, LEASEHOLD_LEASE_NAMESPACE and
LEASEHOLD_LEASE_KEY in its environment.

With --wait it waits in line, and prints to the standard error for whom and at which place. The place is kept while a
controller starts again, or the connection is lost, for up to 25s. Operators and administrators come before
services; among those of one role --order newest comes before --order oldest. A freeze that ends within --wait is
waited out; a longer one is refused at once, unless --override has a reason and the freeze allows it.

--supersede ends those that wait for the same action and came earlier, which end with exit code 6.
--supersede-running also stops the CMD that runs for it: it gets SIGTERM, and SIGKILL at the deadline of its
lease, and this CMD starts when it has ended, or its deadline has passed.

Exit codes: those of \`leases run\`; 6, or --held-exit, also if it is frozen or was superseded while it waited. With --json
each line of Leasehold's own on the standard error is JSON, and the last one the error, whose \`code\` tells why: lease.held,
lease.wait_timeout, environment.frozen or environment.superseded.`;

interface EnvironmentRunOptions extends RunCommandOptions {
  readonly action: string;
  readonly version?: string;
  readonly order: 'oldest' | 'newest';
  readonly supersede?: boolean;
  readonly supersedeRunning?: boolean;
  readonly override?: string;
}

/** `leasehold env run`: a command in an environment. */
export function addEnvironmentRun(cli: Cli, parent: Command): void {
  const about = 'Hold an environment while a command runs, after a wait in its line';
  const command = cli.leaf(parent, 'run <environment> <command...>', about);
  withRunOptions(withScope(command))
    .requiredOption('--action <action>', 'what the environment is used for, such as deploy')
    .option('--version <version>', 'the purpose that others see; the same as --comment')
    .addOption(
      new Option('--order <order>', 'which of those with the same role comes first')
        .choices(['oldest', 'newest'])
        .default('oldest'),
    )
    .option('--supersede', 'end those that wait for the same action')
    .option('--supersede-running', 'also stop what runs for the same action')
    .option('--override <reason>', 'although it is frozen, if the freeze allows it')
    .usage('[options] <environment> -- <command...>')
    .addHelpText('after', ENVIRONMENT_HELP)
    .action(async (first: string, rest: string[], options: EnvironmentRunOptions) => {
      const { scopeTexts, words } = partsOf(cli.args, first, rest);
      const [text, ...others] = scopeTexts;
      if (others.length > 0) {
        throw usageFailure(
          `${printable(others[0] ?? '')} is before the "--", but a command runs in one environment.`,
          'Put the "--" before the command.',
        );
      }
      const { supersede, supersedeRunning, override } = options;
      const superseding = supersede === true ? 'waiting' : undefined;
      const environment = {
        action: options.action,
        order: options.order,
        supersede: supersedeRunning === true ? 'running' : superseding,
        override: override === undefined ? undefined : { reason: override },
      } as const;
      if (environment.supersede !== undefined && options.wait === 0) {
        throw usageFailure(
          '--supersede needs --wait, such as --wait 10m: what runs may take long to stop.',
        );
      }
      if (options.version !== undefined && options.comment !== undefined) {
        throw usageFailure('--version and --comment are the same: give one of them.');
      }
      const comment = options.version ?? options.comment;
      const run = comment === undefined ? options : { ...options, comment };
      const scopes = [parseScope(text, options.namespace)] as const;
      await runCommand(cli, { scopes, words, options: run, environment });
    });
}

/**
 * Several scopes need the `--` before the command: without it, the first argument is the scope.
 * @throws {CliFailure} `cli.usage` if nothing follows the `--`.
 */
function partsOf(
  args: readonly string[],
  first: string,
  rest: readonly string[],
): { readonly scopeTexts: readonly [string, ...string[]]; readonly words: readonly string[] } {
  const words = args.slice(args.indexOf('--') + 1);
  const count = rest.length - words.length;
  if (!args.includes('--') || count < 0) {
    assertAtEnd(args, rest);
    return { scopeTexts: [first], words: rest };
  }
  if (words.length === 0) throw usageFailure('Give the command after the "--".');
  return { scopeTexts: [first, ...rest.slice(0, count)], words };
}

/**
 * In `jobs/x ./deploy.sh --wait 5m` the option may be that of the command, which would run without it.
 * @throws {CliFailure} `cli.usage` for a command without `--` that has an option behind it or between its words.
 */
function assertAtEnd(args: readonly string[], words: readonly string[]): void {
  const place = args.length - words.length;
  if (words.every((word, at) => args[place + at] === word)) return;
  throw usageFailure(
    `An option follows ${printable(words[0] ?? '')}: it may be for that command, or for this one.`,
    'Put this command’s options before the scope, and `--` before the command that is to be run.',
  );
}

/**
 * In `jobs/clean ssh host -- rm -rf /srv`, where the `--` is at the wrong place, the last words would run here.
 * @throws {CliFailure} `cli.usage` for a scope after the first one that has no "/".
 */
function assertNoCommandWord([, ...others]: readonly string[]): void {
  const word = others.find((text) => !text.includes('/'));
  if (word === undefined) return;
  throw usageFailure(
    `${printable(word)} is before the "--", but no scope: of several scopes, each has a "/".`,
    `Put the "--" before the command. A key in the root namespace is /KEY, such as /${printable(word)}.`,
  );
}

/** Checks the command before it waits in line or takes a lease from others. */
function assertRunnable(name: string, searchPath: string): void {
  const { outcome } = findCommand(name, searchPath);
  if (outcome === 'found') return;
  const isThere = outcome === 'not_executable';
  throw new CliFailure(
    isThere ? `${printable(name)} may not be executed.` : `There is no command ${printable(name)}.`,
    {
      code: 'run.not_started',
      exitCode: isThere ? RUN_EXIT_CODES.notExecutable : RUN_EXIT_CODES.notFound,
    },
  );
}

/** `leasehold leases guard`: started by `leases run`. Not in the help, since nobody calls it. */
export function addGuard(cli: Cli, parent: Command): void {
  parent.command('guard', { hidden: true }).action(async () => {
    // A parent that is gone already is no error: then there is nothing to guard.
    if (process.send === undefined) {
      throw usageFailure('Only `leasehold leases run` starts a guard.');
    }
    await runGuard(cli.context.environment);
  });
}

/** How `leasehold leases run` was called. */
interface RunCommandOptions {
  readonly namespace?: string;
  readonly datacenter?: string;
  readonly ttl: number;
  readonly wait: number;
  readonly holder?: string;
  readonly comment?: string;
  readonly grace?: number;
  readonly heldExit: number;
  readonly passToken?: boolean;
  readonly singleChild?: boolean;
}

const TTL_MS = 30_000;
/** As much as a short lease can spare, and no more than most programs need to end. */
const GRACE_SHARE = 6;
const GRACE_MS_MAX = 5_000;

const TTL_RANGE: DurationRange = [LIMITS.ttlMsMin, LIMITS.ttlMsMax];

/** Adds `--ttl` and `--wait` of a command that acquires a lease. */
export function withTtlAndWait(command: Command, ttlMs: number): Command {
  withDuration(command, '--ttl', {
    about: 'how long the lease lasts without a renewal',
    range: TTL_RANGE,
    defaultMs: ttlMs,
  });
  return withDuration(command, '--wait', {
    about: 'how long to wait in line for it',
    range: [0, LIMITS.waitMsInLineMax],
    defaultMs: 0,
  });
}

/** Of a command that may hold a lease beside others; {@link withSharing} adds it. */
export interface SharingOptions {
  readonly shared?: boolean;
  readonly permit?: boolean;
}

/** Adds `--shared` and `--permit`. */
export function withSharing(command: Command): Command {
  return command
    .option('--shared', 'hold it beside others that share it, instead of alone')
    .option('--permit', 'hold it by one of its permits, instead of alone');
}

/** How the leases are held. @throws {CliFailure} `cli.usage` for both options. */
export function sharingModeOf({ shared, permit }: SharingOptions): SharingMode | undefined {
  if (shared === true && permit === true) {
    throw usageFailure('Give either --shared or --permit.');
  }
  if (shared === true) return 'shared';
  return permit === true ? 'permit' : undefined;
}

/** Adds the options of `run`. */
function withRunOptions(command: Command): Command {
  withDuration(command, '--grace', {
    about:
      'how long before the lease is lost CMD is sent SIGTERM; a sixth of --ttl, 5s at most, unless given',
    range: [0, graceMsMax(LIMITS.ttlMsMax)],
  });
  return withTtlAndWait(command, TTL_MS)
    .option('--holder <holder>', 'the holder that others see; by default USER@HOST/PID')
    .option('--comment <text>', 'the purpose that others see; by default the name of CMD')
    .option(
      '--held-exit <n>',
      'the exit code if somebody else holds it, to distinguish that from a failure of CMD',
      wholeNumberOf('--held-exit'),
      EXIT_CODES.held,
    )
    .option('--single-child', 'send signals to CMD alone, not to what it has started')
    .option('--pass-token', 'pass LEASEHOLD_TOKEN to CMD, which does not get it otherwise');
}

type CheckedOptions = Pick<RunCommandOptions, 'ttl' | 'grace' | 'heldExit'>;

const EXIT_CODE_MAX = 255;

/**
 * How long before its lease is lost a command is sent SIGTERM.
 * @throws {CliFailure} `cli.usage` for options that are out of range.
 */
export function checkedGraceMs({ ttl, grace, heldExit }: CheckedOptions): number {
  if (heldExit > EXIT_CODE_MAX) {
    throw usageFailure(
      `--held-exit must be from 0 to ${String(EXIT_CODE_MAX)}, not ${String(heldExit)}.`,
    );
  }
  const graceMs = grace ?? Math.min(Math.floor(ttl / GRACE_SHARE), GRACE_MS_MAX);
  assertDuration(`With --ttl ${durationWord(ttl)}, --grace`, graceMs, [0, graceMsMax(ttl)]);
  return graceMs;
}

/** At least half of the time in which the lease is renewed is left for renewals. */
function graceMsMax(ttlMs: number): number {
  const { renewAfterMs, hardAfterMs } = serviceLadder(ttlMs);
  return Math.floor((hardAfterMs - renewAfterMs) / 2);
}
