import { toleratedClockRatio } from '@leasehold/keys-core';
import { plainDatabaseUrl } from '@leasehold/service-kit';
import { controllerUrls, tokenText } from '@leasehold/service-kit/variables';
import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { redactedConfig, type ConfigInEffect } from '../config.ts';
import {
  changeContexts,
  contextIn,
  contextNameProblem,
  findTarget,
  LOCAL,
  readContexts,
  requireContext,
  type Context,
} from '../contexts.ts';
import { refusal, unreachable, usageFailure } from '../failures.ts';
import { namedDatabase, readCredentials, readRunFile, runningUpOf, type RunFile } from '../home.ts';
import { detailsText, type Column } from '../output/text.ts';

const HELP = `
Contexts are kept in $XDG_CONFIG_HOME/leasehold/contexts.json (~/.config unless set), which only its owner
may read. The context "local" is always there: what \`leasehold up\` runs in LEASEHOLD_HOME.

Examples:
  leasehold context add staging --controllers https://leasehold.staging.example --token-stdin <token.txt
  leasehold context use staging
  leasehold --context local keys ls`;

/** `leasehold context`: several installations, each with a name. */
export function addContext(cli: Cli, program: Command): void {
  const parent = program
    .command('context')
    .description('Name installations, and choose the one that commands use')
    .addHelpText('after', HELP);
  addAdd(cli, parent);
  addUse(cli, parent);
  addLs(cli, parent);
  addShow(cli, parent);
  addCurrent(cli, parent);
  addRm(cli, parent);
}

/** A context as it is shown: its token never is. */
interface ContextView {
  readonly name: string;
  /** null: what runs in the home. */
  readonly urls: readonly string[] | null;
  readonly hasToken: boolean;
  /** Whether commands use it, unless a variable or an option says otherwise. */
  readonly isCurrent: boolean;
}

function viewOf({ name, urls, token }: Context, current: string | null): ContextView {
  return { name, urls, hasToken: token !== null, isCurrent: name === current };
}

function localView(current: string | null): ContextView {
  return { name: LOCAL, urls: null, hasToken: true, isCurrent: current === null };
}

interface AddOptions {
  readonly controllers: string;
  readonly token?: string;
  readonly tokenStdin?: true;
  readonly replace?: true;
  readonly use?: true;
}

function addAdd(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'add <name>', 'Name an installation; its token is asked for, unless given')
    .requiredOption('--controllers <urls>', 'its controllers, separated by commas')
    .option('--token <token>', 'the token; other users of this machine may see it while this runs')
    .option('--token-stdin', 'read the token from standard input')
    .option('--replace', 'change the context if it exists')
    .option('--use', 'use it from now on')
    .action(async (name: string, options: AddOptions) => {
      // What it throws is said before anything is changed.
      if (options.use === true) cli.config();
      const added = { ...checkedContext(name, options), token: await tokenFor(cli, options) };
      await changeContexts(cli.environment, ({ current, contexts }) => {
        const before = contextIn(contexts, name);
        if (before !== undefined && options.replace !== true) {
          throw refusal(
            'context.exists',
            `There is a context ${name} already.`,
            'Add --replace to change it, or choose another name.',
          );
        }
        return {
          current: options.use === true ? name : current,
          contexts:
            before === undefined
              ? [...contexts, added]
              : contexts.map((one) => (one === before ? added : one)),
        };
      });
      cli.show({ name, urls: added.urls, hasToken: added.token !== null }, () =>
        addedText(added, options.use === true),
      );
      if (options.use === true) warnOfVariables(cli);
    });
}

function checkedContext(name: string, { controllers, token, tokenStdin }: AddOptions) {
  const problem = contextNameProblem(name);
  if (problem !== undefined) throw usageFailure(problem);
  const urls = controllerUrls.safeParse(controllers);
  if (!urls.success) throw usageFailure(`--controllers: ${urls.error.issues[0]?.message ?? ''}.`);
  if (token !== undefined && tokenStdin === true) {
    throw usageFailure('--token and --token-stdin exclude each other.');
  }
  return { name, urls: urls.data };
}

/** null: none is kept, and LEASEHOLD_TOKEN is used. */
async function tokenFor(cli: Cli, { token, tokenStdin }: AddOptions): Promise<string | null> {
  const { readStdin, askSecret } = cli.context;
  if (token !== undefined) return checkedToken(token, '--token');
  if (tokenStdin === true) return checkedToken((await readStdin()).trim(), '--token-stdin');
  const answer = (await askSecret('Token (empty: LEASEHOLD_TOKEN is used): '))?.trim() ?? '';
  return answer === '' ? null : checkedToken(answer, 'The token');
}

/** @throws {CliFailure} `cli.usage`, without what was given: it may be another secret. */
function checkedToken(text: string, name: string): string {
  if (tokenText.safeParse(text).success) return text;
  throw usageFailure(
    `${name} must be a token, lh_ and 43 characters.`,
    '`leasehold tokens create NAME --role ROLE` makes one, at a controller.',
  );
}

function addedText({ name, token }: Context, isUsed: boolean): string {
  const noToken = token === null ? ' It has no token: commands need LEASEHOLD_TOKEN.' : '';
  const next = isUsed ? 'Commands use it now.' : `\`leasehold context use ${name}\` chooses it.`;
  return `The context ${name} is kept.${noToken} ${next}`;
}

function addUse(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'use <name>', `Choose what commands use; ${LOCAL}: what runs in the home`)
    .action(async (name: string) => {
      cli.config();
      await changeContexts(cli.environment, (before) => {
        if (name === LOCAL) return { ...before, current: null };
        return { ...before, current: requireContext(before, name).name };
      });
      cli.show({ name }, () => `Commands use the context ${name}.`);
      warnOfVariables(cli);
    });
}

/** A variable that wins would otherwise surprise. */
function warnOfVariables(cli: Cli): void {
  const { context, urls, token } = cli.config();
  const winning = [
    ...(context === null ? [] : ['LEASEHOLD_CONTEXT']),
    ...(urls === null ? [] : ['LEASEHOLD_URL']),
    ...(token === null ? [] : ['LEASEHOLD_TOKEN']),
  ];
  if (winning.length === 0 || cli.isJson) return;
  cli.context.stderr(`${winning.join(' and ')} in the environment takes precedence over it.\n`);
}

const COLUMNS: readonly Column<ContextView>[] = [
  { head: 'context', text: ({ name }) => name },
  { head: 'current', text: ({ isCurrent }) => (isCurrent ? '*' : '') },
  { head: 'url', text: ({ urls }) => urlsText(urls) },
  { head: 'token', text: ({ hasToken }) => (hasToken ? 'kept' : '-') },
];

function urlsText(urls: ContextView['urls']): string {
  return urls?.join(',') ?? 'what leasehold up runs here';
}

function addLs(cli: Cli, parent: Command): void {
  cli.leaf(parent, 'ls', 'List contexts, without their tokens').action(() => {
    const { current, contexts } = readContexts(cli.environment);
    const sorted = [...contexts].sort((a, b) => (a.name < b.name ? -1 : 1));
    const items = [localView(current), ...sorted.map((one) => viewOf(one, current))];
    cli.showPage({ items, nextCursor: null }, '', COLUMNS);
  });
}

function addShow(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'show [name]', 'Show a context, or without a name what commands use now')
    .action((name: string | undefined) => {
      const shown = name === undefined ? inEffect(cli) : namedView(cli, name);
      cli.show(shown, () =>
        detailsText([
          ['context', shown.name ?? '-'],
          ['url', urlsText(shown.urls)],
          ['token', shown.hasToken ? 'kept' : '-'],
          ...('from' in shown
            ? [['url from', shown.from.urls] as const, ['token from', shown.from.token] as const]
            : []),
        ]),
      );
    });
}

function namedView(cli: Cli, name: string): ContextView {
  const contexts = readContexts(cli.environment);
  if (name === LOCAL) return localView(contexts.current);
  return viewOf(requireContext(contexts, name), contexts.current);
}

/** What commands use, whatever decides it. */
function inEffect(cli: Cli) {
  const { context, urls, token, from } = findTarget(cli.config(), cli.environment);
  const name = context ?? (urls === null ? LOCAL : null);
  return { name, urls, hasToken: token !== null || urls === null, from };
}

function addCurrent(cli: Cli, parent: Command): void {
  cli.leaf(parent, 'current', 'Print the name of the context that commands use now').action(() => {
    const { name } = inEffect(cli);
    if (name === null) {
      throw refusal(
        'context.not_found',
        'No context is in use: LEASEHOLD_URL names the controllers.',
        '`leasehold context show` shows them.',
      );
    }
    cli.show({ name }, () => name);
  });
}

function addRm(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'rm <name>', 'Remove a context and its token from this machine')
    .action(async (name: string) => {
      if (name === LOCAL) throw usageFailure(`The context ${LOCAL} cannot be removed.`);
      let wasCurrent = false;
      await changeContexts(cli.environment, (before) => {
        requireContext(before, name);
        wasCurrent = before.current === name;
        return {
          current: wasCurrent ? null : before.current,
          contexts: before.contexts.filter((one) => one.name !== name),
        };
      });
      cli.show({ name, wasCurrent }, () =>
        wasCurrent
          ? `The context ${name} is removed. Commands used it; they use ${LOCAL} now.`
          : `The context ${name} is removed.`,
      );
    });
}

interface PrintOptions {
  readonly databaseUrl?: true;
  readonly showSecrets?: true;
}

const CONFIG_HELP = `
While \`leasehold up\` runs in the home, this is what it runs with. The address of the database is one for
psql and other programs, with its password:

  psql "$(leasehold config print --database-url)"`;

/** `leasehold config print`: what is in effect, without secrets unless they are asked for. */
export function addConfig(cli: Cli, program: Command): void {
  const parent = program.command('config').description('Show the configuration');
  cli
    .leaf(parent, 'print', 'Print the configuration in effect, without secrets')
    .option('--database-url', 'print the address of the database alone, with its password')
    .option('--show-secrets', 'print secrets as they are')
    .addHelpText('after', CONFIG_HELP)
    .action((options: PrintOptions) => {
      if (options.databaseUrl === true) {
        const databaseUrl = plainDatabaseUrl(databaseUrlOf(cli));
        cli.show({ databaseUrl }, () => databaseUrl);
        return;
      }
      const { from, ...config } = configInEffect(cli);
      const shown = {
        ...(options.showSecrets === true ? config : redactedConfig(config)),
        clockRatioMax: toleratedClockRatio(config.ladder),
        from,
      };
      cli.show(shown, () => detailsText(flatten(shown)));
    });
}

/** @throws {CliFailure} `cli.unreachable` when no database is named and none runs. */
function databaseUrlOf(cli: Cli): string {
  const config = cli.config();
  const found = namedDatabase(config) ?? runningIn(config.home)?.databaseUrl;
  if (found !== undefined) return found;
  throw unreachable(
    `Nothing runs in ${config.home}, and DATABASE_URL is not set.`,
    '`leasehold up` starts a PostgreSQL; its port stays the same from start to start.',
  );
}

/** What runs in the home now, and not what was left behind by a run that was killed. */
function runningIn(home: string): RunFile | undefined {
  return runningUpOf(home) === undefined ? undefined : readRunFile(home);
}

/** The configuration, as what runs here has it, and the controllers that commands talk to. */
function configInEffect(
  cli: Cli,
): ConfigInEffect & { readonly from: { urls: string; token: string } } {
  const config = cli.config();
  const { urls, token, context, from } = findTarget(config, cli.environment);
  if (urls !== null) return { ...config, urls, token, context, from };
  const run = runningIn(config.home);
  if (run === undefined) return { ...config, urls, token, context, from };
  return {
    ...config,
    ...run.settings,
    context,
    from,
    databaseUrl: run.databaseUrl,
    urls: [run.controllerUrl],
    consoleOrigin: config.consoleOrigin ?? run.consoleUrl,
    token: token ?? readCredentials(config.home)?.admin ?? null,
  };
}

function flatten(value: object, prefix = ''): [string, string][] {
  return Object.entries(value).flatMap(([name, inner]: [string, unknown]): [string, string][] => {
    if (Array.isArray(inner)) return [[`${prefix}${name}`, inner.join(', ')]];
    if (typeof inner === 'object' && inner !== null) return flatten(inner, `${prefix}${name}.`);
    const isText = typeof inner === 'string' || typeof inner === 'number';
    return [[`${prefix}${name}`, isText ? String(inner) : '-']];
  });
}
