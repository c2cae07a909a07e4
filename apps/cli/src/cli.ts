import { createControllerClient, type ControllerApi } from '@leasehold/client';
import type { Command } from 'commander';
import type { Column } from './output/table.ts';
import { parseConfig, type CliConfig } from './config/config.ts';
import type { CliContext } from './context.ts';
import { EXIT_CODES } from './failures/exit-codes.ts';
import { unreachable, usageFailure } from './failures/failure.ts';
import { readCredentials, readRunFile } from './config/home.ts';
import { pageText, type ListFormat, type ListPage } from './options.ts';
import { createStyle, type Style } from './output/style.ts';

/** Controllers of one database, of which any that answers is used, and a token for them. */
export interface Access {
  readonly urls: readonly string[];
  readonly token: string;
}

/** What a command works with. Everything in it is made when it is first asked for. */
export interface Cli {
  readonly context: CliContext;
  /** Whether programs read the answer. */
  readonly isJson: boolean;
  /** @throws {CliFailure} `config.invalid`. */
  config(): CliConfig;
  /** Which controllers were asked, if any were: for messages. */
  controllerUrls(): string | undefined;
  /**
   * Where the controllers are, and the token for them.
   * @throws {CliFailure} when it is not configured.
   */
  access(): Access;
  /** The controller over HTTP, or over a WebSocket for a command that follows something. */
  client(transport?: 'http' | 'ws'): ControllerApi;
  /** How lists are printed, and whether again and again; see `withListing`. */
  listing: { format: ListFormat; isWatched: boolean };
  /** Prints a list, in the form that was asked for; `empty` is its text without rows. */
  showPage<Row>(page: ListPage<Row>, empty: string, columns: readonly Column<Row>[]): void;
  /** Prints an answer: as JSON for programs, as text for people. */
  show(answer: unknown, text: () => string): void;
  /** Adds a leaf command, with what every command has. */
  leaf(parent: Command, nameAndArguments: string, description: string): Command;
  /** What a command that did not fail ends with; undefined once the process is another program. */
  exitCode: number | undefined;
  readonly style: Style;
  /** Closes what was opened. */
  close(): void;
}

const CLEAR_SCREEN = '\u{1b}[H\u{1b}[2J';

/** What changes with the time alone. */
const TIMES: ReadonlySet<string> = new Set([
  ...['asOf', 'remainingMs', 'renewedAt', 'expiresAt', 'heartbeatAgeMs', 'heartbeatAt', 'waitedMs'],
  ...['roundTripMs', 'lastUsedAt', 'machine', 'usage'],
]);

function withoutTimes(field: string, value: unknown): unknown {
  return TIMES.has(field) ? undefined : value;
}

export function createCli(context: CliContext, isJson: boolean): Cli {
  const closers: (() => void)[] = [];
  let config: CliConfig | undefined;
  let askedUrls: string | undefined;
  let shown: string | undefined;
  const isChanged = (answer: unknown): boolean => {
    const before = shown;
    shown = JSON.stringify(answer, withoutTimes);
    return shown !== before;
  };

  const cli: Cli = {
    context,
    isJson,
    config: () => (config ??= parseConfig(context.environment)),
    controllerUrls: () => askedUrls,
    access() {
      const access = controllerAccess(cli.config());
      askedUrls = access.urls.join(', ');
      return access;
    },
    client(transport = 'http') {
      const { urls, token } = cli.access();
      const connection = createControllerClient({ url: urls, token, transport });
      closers.push(() => void connection.close());
      return connection.api;
    },
    listing: { format: 'table', isWatched: false },
    showPage(page, empty, columns) {
      const { format } = cli.listing;
      if (isJson || format !== 'name' || page.items.length > 0) {
        cli.show(page, () => pageText(page, { empty, columns, format }));
      }
    },
    show(answer, text) {
      const { isWatched } = cli.listing;
      if (isWatched && !isChanged(answer)) return;
      const clear = isWatched && context.isTerminal && !isJson ? CLEAR_SCREEN : '';
      context.stdout(`${clear}${isJson ? JSON.stringify(answer) : text()}\n`);
    },
    leaf: (parent, nameAndArguments, description) =>
      parent
        .command(nameAndArguments)
        .description(description)
        .option('--json', 'print the answer as JSON, errors too')
        .showHelpAfterError('(--help lists what the command accepts)'),
    style: createStyle(context.isTerminal && (context.environment['NO_COLOR'] ?? '') === ''),
    exitCode: EXIT_CODES.done,
    close() {
      for (const close of closers.splice(0)) close();
    },
  };
  return cli;
}

/**
 * Where the controllers are and the token for them: from the environment, else from the home.
 * @throws {CliFailure} when neither gives it.
 */
export function controllerAccess(config: CliConfig): Access {
  const running = config.urls === null ? readRunFile(config.home)?.controllerUrl : undefined;
  const urls = config.urls ?? (running === undefined ? undefined : [running]);
  if (urls === undefined) {
    throw unreachable(
      `Nothing runs in ${config.home}, and LEASEHOLD_URL is not set.`,
      'Start everything here with `leasehold up`, or set LEASEHOLD_URL and LEASEHOLD_TOKEN.',
    );
  }
  // A token is never sent to an address that it was not made for.
  const token =
    config.token ?? (config.urls === null ? readCredentials(config.home)?.admin : undefined);
  if (token === undefined) {
    throw usageFailure(
      'LEASEHOLD_TOKEN is not set.',
      `The tokens of ${config.home} are for what runs there; \`leasehold tokens create\` makes others.`,
    );
  }
  return { urls, token };
}
