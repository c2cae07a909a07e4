import { type Command, InvalidArgumentError, Option } from 'commander';
import { emailSchema } from '@leasehold/api/contract';
import type { ControllerApi } from '@leasehold/client';
import { FAIR_USE_MAX, readLimits, TOKEN_ROLES, type TokenRole } from '@leasehold/keys-core';
import type { PlannedMigration } from '@leasehold/keys-core/postgres';
import { pathOfPart } from '../apps.ts';
import type { Cli } from '../cli.ts';
import type { TokenDetails, TokenView } from '../controller-api.ts';
import type { MadeAdmin } from '../database.ts';
import { usageFailure } from '../failures.ts';
import { requireDatabase } from '../home.ts';
import {
  appendText,
  durationOf,
  type DurationRange,
  type PageOptions,
  wholeNumberOf,
  withPage,
  withReason,
} from '../options.ts';
import { type Column, detailsText, printable, printableOr, tableText } from '../output/text.ts';

/** `leasehold tokens`. */
export function addTokens(cli: Cli, program: Command): void {
  const parent = program.command('tokens').description('Create, list and revoke API tokens');
  addCreate(cli, parent);
  addLs(cli, parent);
  addShow(cli, parent);
  addRevoke(cli, parent);
}

const MINUTE_MS = 60_000;
const EXPIRES_RANGE: DurationRange = [MINUTE_MS, 3_660 * 24 * 60 * MINUTE_MS];

type TokenRequest = Parameters<ControllerApi['tokens']['create']['mutate']>[0];

interface TokensCreateOptions {
  readonly role: TokenRole;
  readonly namespace: string[];
  readonly program: string[];
  readonly drone?: string;
  readonly capacity?: number;
  readonly address: string[];
  readonly limits?: string;
  readonly expires?: string | undefined;
}

/** Prints the secret alone in the first line, because it is shown once. */
function addCreate(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'create <name>', 'Create a token; its secret is shown only once')
    .addOption(
      new Option('--role <role>', 'what it may do').choices(TOKEN_ROLES).makeOptionMandatory(),
    )
    .option(
      '-n, --namespace <namespace>',
      'limit it to a namespace and its children; repeatable',
      appendText,
      [],
    )
    .option(
      '--program <program>',
      'the programs that a drone may offer, or a client may start; repeatable',
      appendText,
      [],
    )
    .option('--drone <drone>', 'the drone that a token of role drone is for')
    .option('--capacity <n>', 'how many backends that drone may run', wholeNumberOf('--capacity'))
    .option(
      '--address <network>',
      "where that drone's backends may be, such as 10.1.0.0/16:21000-29999; repeatable",
      appendText,
      [],
    )
    .option(
      '--limits <limits>',
      'limits that replace those of its role, such as callsPerSecond=100,waiters=10',
    )
    .option('--expires <when>', 'when it expires: 30d, or an instant (ISO-8601); by default never')
    .action(async (name: string, options: TokensCreateOptions) => {
      const expires = await instantOf(cli, options.expires);
      const request = requestOf(name, { ...options, expires });
      const answer = await cli.client().tokens.create.mutate(request);
      cli.show(
        answer,
        () =>
          `${answer.secret}\n\nThis is the only time that the secret is shown. ` +
          `\`leasehold tokens revoke ${answer.tokenId}\` ends it.`,
      );
    });
}

/** When a token expires: an instant as it is, or a time from now on by the clock of the database. */
async function instantOf(cli: Cli, expires: string | undefined): Promise<string | undefined> {
  if (expires === undefined || expires.includes('-')) return expires;
  const lifeMs = durationOf('--expires', EXPIRES_RANGE)(expires);
  const { asOf } = await cli.client().tokens.list.query({ limit: 1 });
  return new Date(Date.parse(asOf) + lifeMs).toISOString();
}

function requestOf(
  name: string,
  { role, namespace, program, drone, capacity, address, limits, expires }: TokensCreateOptions,
): TokenRequest {
  return {
    name,
    role,
    droneId: drone,
    capacity,
    expiresAt: expires,
    namespaces: namespace.length === 0 ? undefined : namespace,
    programs: program.length === 0 ? undefined : program,
    addresses: address.length === 0 ? undefined : address,
    limits: limits === undefined ? undefined : limitsOf(limits),
  };
}

function limitsOf(text: string): TokenRequest['limits'] {
  const { limits, problems } = readLimits(text, FAIR_USE_MAX);
  const [problem] = problems;
  if (problem !== undefined) throw usageFailure(`--limits: ${problem}.`);
  return limits;
}

const COLUMNS: readonly Column<TokenView>[] = [
  { head: 'token', text: (token) => token.tokenId },
  { head: 'name', text: (token) => printable(token.name) },
  { head: 'role', text: (token) => token.role },
  { head: 'drone', text: ({ droneId }) => printableOr(droneId, '') },
  { head: 'namespaces', text: ({ namespaces }) => listText(namespaces) },
  { head: 'programs', text: ({ programs }) => listText(programs) },
  { head: 'created', text: (token) => `${token.createdAt} by ${printable(token.createdBy)}` },
  { head: 'last used', text: (token) => token.lastUsedAt ?? 'never' },
  { head: 'ends', text: (token) => tokenEndText(token) },
];

function addLs(cli: Cli, parent: Command): void {
  withPage(cli.leaf(parent, 'ls', 'List tokens, without their secrets')).action(
    async (options: PageOptions) => {
      const page = await cli.client().tokens.list.query(options);
      cli.showPage(page, 'No tokens.', COLUMNS);
    },
  );
}

/** When a token ends, or has ended. */
function tokenEndText(token: Pick<TokenView, 'revokedAt' | 'expiresAt'>): string {
  if (token.revokedAt !== null) return `revoked ${token.revokedAt}`;
  return token.expiresAt ?? 'never';
}

type LimitUse = TokenDetails['fairUse'][number];

const LIMIT_COLUMNS: readonly Column<LimitUse>[] = [
  { head: 'limit', text: ({ limit }) => limit },
  { head: 'used', text: ({ used }) => (used === null ? '-' : String(used)), align: 'right' },
  { head: 'at most', text: ({ max }) => String(max), align: 'right' },
  { head: 'of', text: ({ isOwn }) => (isOwn ? 'the token' : 'its role') },
];

/** What a token is bound to, and how much of its limits it uses. */
function addShow(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'show <token>', 'Show one token: its bindings, its limits and its use')
    .action(async (tokenId: string) => {
      const details = await cli.client().tokens.get.query({ tokenId });
      cli.show(details, () => tokenText(details));
    });
}

function tokenText({ token, fairUse }: TokenDetails): string {
  const about = detailsText([
    ['token', token.tokenId],
    ['name', printable(token.name)],
    ['role', token.role],
    ...(token.droneId === null ? [] : [['drone', printable(token.droneId)] as const]),
    ['namespaces', listText(token.namespaces)],
    ['programs', listText(token.programs)],
    ...(token.role === 'drone'
      ? ([
          ['capacity', token.capacity === null ? 'any' : String(token.capacity)],
          ['addresses', listText(token.addresses)],
        ] as const)
      : []),
    ['created', `${token.createdAt} by ${printable(token.createdBy)}`],
    ['last used', token.lastUsedAt ?? 'never'],
    ['ends', tokenEndText(token)],
  ]);
  return `${about}\n\n${tableText(fairUse, LIMIT_COLUMNS)}`;
}

function listText(list: readonly string[] | null): string {
  return list?.map(printable).join(' ') ?? 'any';
}

function addRevoke(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'revoke <token>',
    'Revoke a token, and close the connections it opened',
  );
  withReason(command, false).action(async (tokenId: string, { reason }: { reason?: string }) => {
    const answer = await cli.client().tokens.revoke.mutate({ tokenId, reason });
    cli.show(answer, () =>
      answer.changed ? `${tokenId} is revoked.` : `Nothing changed: ${tokenId} was not valid.`,
    );
  });
}

const NAME_LENGTH_MAX = 255;

interface AdminCreateOptions {
  readonly email: string;
  readonly name?: string;
  readonly passwordStdin?: true;
}

const HELP = `
It needs the database (DATABASE_URL, or that of the \`leasehold up\` of this home) but no controller, so it
also works when nobody can sign in any more. An existing person becomes an administrator, is enabled and
unlocked, gets the new password, and is signed out everywhere.`;

/** `leasehold admin create`: somebody who can sign in to the console and administer. */
export function addAdmin(cli: Cli, program: Command): void {
  const parent = program.command('admin').description('Make administrators of the console');
  cli
    .leaf(parent, 'create', 'Make an administrator of the console, or restore one')
    .requiredOption('--email <email>', 'the e-mail address for sign-in', emailOf)
    .option('--name <name>', 'the name of the person', nameOf)
    .option(
      '--password-stdin',
      'read the password from standard input; by default one is generated',
    )
    .addHelpText('after', HELP)
    .action(async ({ email, name, passwordStdin }: AdminCreateOptions) => {
      const config = cli.config();
      const databaseUrl = requireDatabase(
        config,
        `Nothing runs in ${config.home} either; \`leasehold up\` makes an administrator by itself.`,
      );
      const password =
        passwordStdin === true ? (await cli.context.readStdin()).replace(/\r?\n$/u, '') : undefined;
      const { makeAdminOn } = await import('../database.ts');
      const made = await makeAdminOn(databaseUrl, { email, name, password });
      cli.show(made, () => sentences(made));
    });
}

function sentences(shown: MadeAdmin): string {
  const what = shown.isNew ? 'is an administrator now' : 'is an administrator again';
  return shown.password === undefined
    ? `${shown.email} ${what}.`
    : `${shown.password}\n\n${shown.email} ${what}. This is the only time that the password is shown.`;
}

/** Accepts only what the sign-in accepts: with any other address nobody could sign in. */
function emailOf(text: string): string {
  const email = emailSchema.safeParse(text);
  if (email.success) return email.data;
  throw new InvalidArgumentError('It must be an e-mail address, such as you@example.com.');
}

function nameOf(text: string): string {
  if (text.trim() === '' || text.length > NAME_LENGTH_MAX) {
    throw new InvalidArgumentError(`It must have 1 to ${String(NAME_LENGTH_MAX)} characters.`);
  }
  return text;
}

/** `leasehold migrate`: brings the database up to this version. Safe to repeat and to race. */
export function addMigrate(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'migrate', 'Apply the migrations of this version to the database of DATABASE_URL')
    .option('--plan', 'print what would be applied, and change nothing; the SQL too with --json')
    .action(async ({ plan }: { plan?: true }) => {
      const databaseUrl = requireDatabase(
        cli.config(),
        '`leasehold up` migrates its own database.',
      );
      const { migrate, planMigration } = await import('@leasehold/keys-core/postgres');
      const migrations = pathOfPart('migrations');
      if (plan === true) {
        const answer = await planMigration(databaseUrl, migrations);
        cli.show(answer, () => planText(answer));
        return;
      }
      const answer = await migrate(databaseUrl, migrations);
      cli.show(answer, () =>
        answer.applied.length === 0
          ? UP_TO_DATE
          : `Applied:${answer.applied.map((name) => `\n  ${name}`).join('')}`,
      );
    });
}

const UP_TO_DATE = 'The database is up to date.';

interface Plan {
  readonly schema: string;
  readonly planned: readonly PlannedMigration[];
}

function planText({ schema, planned }: Plan): string {
  if (planned.length === 0) return UP_TO_DATE;
  const count = planned.length === 1 ? '1 migration' : `${String(planned.length)} migrations`;
  return [
    `${count} to apply to the schema "${schema}", each in a transaction of its own:`,
    ...planned.map(migrationText),
    'Nothing was changed.',
  ].join('\n\n');
}

function migrationText({ name, olderMayStart, notes }: PlannedMigration): string {
  const older = olderMayStart
    ? 'Controllers of older versions may be started afterwards.'
    : 'Controllers of older versions that run continue, and cannot be started afterwards.';
  const lines = [...(notes === '' ? [] : notes.split('\n')), older];
  return [name, ...lines.map((line) => `  ${line}`.trimEnd())].join('\n');
}
