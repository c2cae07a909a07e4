import { createControllerClient, type ControllerApi } from '@leasehold/client';
import type { Environment } from '@leasehold/service-kit';
import type { Command } from 'commander';
import { parseConfig, type CliConfig } from './config.ts';
import { controllerAccess, findTarget, type Access } from './contexts.ts';
import { EXIT_CODES } from './failures.ts';
import { pageNotes, pageText, type ListFormat, type ListPage } from './options.ts';
import { createStyle, type Column, type Style } from './output/text.ts';

/** What a command works with. Everything in it is made when it is first asked for. */
export interface Cli {
  readonly context: CliContext;
  /** The arguments as they were typed, without the program's own name. */
  readonly args: readonly string[];
  /** Whether programs read the answer. */
  readonly isJson: boolean;
  /** The environment, with the context that the command line names. */
  environment: Environment;
  /** @throws {CliFailure} `config.invalid`. */
  config(): CliConfig;
  /** Which controllers were asked, if any were: for messages. */
  asked(): Access | undefined;
  /**
   * Where the controllers are, and the token for them.
   * @throws {CliFailure} when it is not configured.
   */
  access(): Access;
  /**
   * The controller over HTTP, or over a WebSocket for a command that follows something. `callTimeoutMs` is for calls that
   * may take longer than the library waits for an answer by itself.
   */
  client(transport?: 'http' | 'ws', callTimeoutMs?: number): ControllerApi;
  /** How lists are printed, and whether again and again; see `withListing`. */
  listing: { format: ListFormat; isWatched: boolean };
  /**
   * Prints a page of a list, in the form that was asked for; `empty` is its text without rows. A watched one is printed
   * again when it, or what is `beside` it in the columns, changes.
   */
  showPage<Row>(
    page: ListPage<Row>,
    empty: string,
    columns: readonly Column<Row>[],
    beside?: unknown,
  ): void;
  /** Prints an answer: as JSON for programs, as text for people; nothing for an empty text. */
  show(answer: unknown, text: () => string, more?: Shown): void;
  /** How a person calls this program: with `npx` before it where npx has started it. */
  readonly called: string;
  /** Says on the standard error how it goes, on a line of its own: as text, or for programs as `{"note": …}`. */
  note(text: string): void;
  /** Adds a leaf command, with what every command has; `--context` only to what talks to controllers. */
  leaf(
    parent: Command,
    nameAndArguments: string,
    description: string,
    options?: { readonly hasContext?: boolean },
  ): Command;
  /** What a command that did not fail ends with; undefined once the process is another program. */
  exitCode: number | undefined;
  readonly style: Style;
  /** Closes what was opened. */
  close(): void;
}

/** What belongs to an answer. */
interface Shown {
  /** What the text says more than the answer. */
  readonly beside?: unknown;
  /** What a list of names cannot say, such as that some are missing: goes to the standard error beside one. */
  readonly notes?: string;
}

const CLEAR_SCREEN = '\u{1b}[H\u{1b}[2J';

/** What changes with the time alone. */
const TIMES: ReadonlySet<string> = new Set([
  'asOf',
  'remainingMs',
  'renewedAt',
  'expiresAt',
  'heartbeatAgeMs',
  'heartbeatAt',
  'waitedMs',
  'longestMs',
  'fromAt',
  'oppositeFromAt',
  'roundTripMs',
  'lastUsedAt',
  'machine',
  'usage',
]);

function withoutTimes(field: string, value: unknown): unknown {
  return TIMES.has(field) ? undefined : value;
}

/** Nothing for an empty text. */
function lineOf(text: string): string {
  return text === '' ? '' : `${text}\n`;
}

export function createCli(context: CliContext, args: readonly string[], isJson: boolean): Cli {
  /** By how and where they connect: a list that is watched asks again and again. */
  const clients = new Map<string, ReturnType<typeof createControllerClient>>();
  let config: CliConfig | undefined;
  let asked: Access | undefined;
  let shown: string | undefined;
  const isChanged = (answer: unknown): boolean => {
    const before = shown;
    shown = JSON.stringify(answer, withoutTimes);
    return shown !== before;
  };

  const showText = (text: string, notes: string): void => {
    const { format, isWatched } = cli.listing;
    context.stdout(`${isWatched && context.isTerminal ? CLEAR_SCREEN : ''}${lineOf(text)}`);
    if (format === 'name') context.stderr(lineOf(notes.trim()));
  };

  const cli: Cli = {
    context,
    args,
    isJson,
    environment: context.environment,
    config: () => (config ??= parseConfig(cli.environment)),
    asked: () => asked,
    access() {
      asked = controllerAccess(cli.config(), findTarget(cli.config(), cli.environment));
      return asked;
    },
    client(transport = 'http', callTimeoutMs) {
      const { urls: url, token } = cli.access();
      const place = [transport, callTimeoutMs, ...url, token].join(' ');
      const opened =
        clients.get(place) ?? createControllerClient({ url, token, transport, callTimeoutMs });
      clients.set(place, opened);
      return opened.api;
    },
    listing: { format: 'table', isWatched: false },
    showPage(page, empty, columns, beside) {
      const { format } = cli.listing;
      // An empty list from which a datacenter is missing does not say that there is nothing.
      const isUnknown = page.items.length === 0 && (page.unreachable ?? []).length > 0;
      cli.exitCode = isUnknown ? EXIT_CODES.unreachable : EXIT_CODES.done;
      cli.show(page, () => pageText(page, { empty, columns, format }), {
        beside,
        notes: pageNotes(page),
      });
    },
    show(answer, text, { beside, notes = '' } = {}) {
      if (cli.listing.isWatched && !isChanged([answer, isJson ? undefined : beside])) return;
      if (isJson) context.stdout(`${JSON.stringify(answer)}\n`);
      else showText(text(), notes);
    },
    called: context.environment['npm_command'] === 'exec' ? 'npx leasehold' : 'leasehold',
    note(text) {
      context.stderr(`${isJson ? JSON.stringify({ note: text }) : `leasehold: ${text}`}\n`);
    },
    leaf: addLeaf,
    style: createStyle(context.isTerminal && (context.environment['NO_COLOR'] ?? '') === ''),
    exitCode: EXIT_CODES.done,
    close() {
      for (const client of clients.values()) void client.close();
      clients.clear();
    },
  };
  return cli;
}

function addLeaf(
  ...[parent, nameAndArguments, description, { hasContext = true } = {}]: Parameters<Cli['leaf']>
): Command {
  const command = parent
    .command(nameAndArguments)
    .description(description)
    .option('--json', 'print the answer as JSON, errors too')
    .showHelpAfterError('(--help lists what the command accepts)');
  if (hasContext) command.option('--context <name>', 'the context to use, whatever is set');
  return command;
}

/** Where a command writes and what it knows of its surroundings; passed in, so that tests control it. */
export interface CliContext {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  /** Reads the standard input to its end. */
  readonly readStdin: () => Promise<string>;
  /** Asks a person for a secret, which is not shown; undefined when nobody is there to answer. */
  readonly askSecret: (question: string) => Promise<string | undefined>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Whether people read the output as it comes: it may then use colours. */
  readonly isTerminal: boolean;
  /**
   * Aborted when this process is asked to stop. Signals are handled only from the first call on: a
   * command that never calls it ends at once, as programs do.
   */
  readonly signal: () => AbortSignal;
  /** As `signal`, also aborted when nobody reads the standard output any more: for a command that only prints. */
  readonly signalWhileRead: () => AbortSignal;
  /**
   * Reports every signal that this process is sent, and acts on none of them: for a command that
   * passes them on. That includes SIGTSTP and SIGCONT: the listener must stop this process itself.
   */
  readonly onSignal: (listener: (signal: NodeJS.Signals) => void) => void;
  /**
   * Waits until what was written to the standard output has been taken, and tells whether some of it is lost: the disk is
   * full, or its reader has ended. For a command that must then undo what nobody else can, or that writes a lot.
   */
  readonly wasAnswerLost: () => Promise<boolean>;
}
