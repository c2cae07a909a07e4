/** What happened, what was refused, and what operators did. */
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { LeaseholdCallError } from '@leasehold/client';
import {
  ERROR_CODES,
  EVENT_KINDS,
  FACES,
  messageOf,
  type ErrorCode,
  type EventKind,
} from '@leasehold/keys-core';
import { createControllerFetch } from '@leasehold/service-kit/controllers';
import { Option, type Command } from 'commander';
import type { Cli } from '../cli.ts';
import {
  follow,
  type AuditListInput,
  type AuditView,
  type EventListInput,
  type EventView,
  type EventWatchInput,
  type RefusalListInput,
  type RefusalView,
} from '../controller-api.ts';
import { CliFailure, EXIT_CODES, unreachable, usageFailure } from '../failures.ts';
import {
  timeRangeOf,
  withDatacenters,
  withPage,
  withTimeRange,
  type PageOptions,
} from '../options.ts';
import { holderIn } from '../output/grant-text.ts';
import { printable, printableOr, type Column } from '../output/text.ts';
import { scopeText } from '../scope.ts';

type TailOptions = Omit<EventWatchInput, 'afterId' | 'kinds'> & {
  readonly after?: string;
  readonly kind?: EventKind[];
};

type ListOptions = Omit<EventListInput, 'kinds' | 'leaseId' | 'windowMinutes'> & {
  readonly kind?: EventKind[];
  readonly lease?: string;
  readonly last?: number;
};

/** `leasehold events`. */
export function addEvents(cli: Cli, program: Command): void {
  const parent = program.command('events').description('Show what happened, and follow it');
  addTail(cli, parent);
  addLs(cli, parent);
}

/** `leasehold events tail`: what happens from now on, or happened after an event, until Ctrl-C. */
function addTail(cli: Cli, parent: Command): void {
  withFilters(
    cli.leaf(parent, 'tail', 'Show events of keys, leases and environments as they happen'),
  )
    .option('--after <id>', 'continue after this event, or after `oldest`; by default from now on')
    .action(async ({ after, kind, ...filter }: TailOptions) => {
      // Over HTTP first, which fails at once when no controller answers. The reply also tells where
      // to continue when the connection breaks before the first event.
      const { lastId } = await cli.client().events.head.query();
      // A token that is limited to namespaces without events is told of none: it begins with what comes next.
      const now = lastId === 'oldest' ? undefined : lastId;
      await tail(cli, { ...filter, kinds: kind, afterId: after ?? now });
    });
}

/** `leasehold events ls`: what happened, newest first. */
function addLs(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'ls', 'List events, newest first');
  withTimeRange(withFilters(withPage(command)))
    .option('--lease <id>', 'only this grant')
    .action(async ({ kind, lease, ...options }: ListOptions) => {
      const input = { ...timeRangeOf(options), kinds: kind, leaseId: lease };
      const page = await cli.client().events.list.query(input);
      cli.showPage(page, 'No events.', COLUMNS);
    });
}

/** `leasehold refusals`. */
export function addRefusals(cli: Cli, program: Command): void {
  const parent = program
    .command('refusals')
    .description('Show which connects and acquires were refused, and why');
  const command = cli.leaf(
    parent,
    'ls',
    'List refusals of the last week by hour, resource and code, the latest first',
  );
  withTimeRange(withResource(withDatacenters(withPage(command))))
    .option('--code <code>', 'only with this code, such as spawn.no_drone, or held')
    .action(async (options: RefusalListInput & { readonly last?: number }) => {
      const page = await cli.client().refusals.list.query(timeRangeOf(options));
      cli.showPage(page, 'Nothing was refused.', REFUSAL_COLUMNS);
    });
}

const REFUSAL_COLUMNS: readonly Column<RefusalView>[] = [
  { head: 'last', text: (one) => one.lastAt },
  { head: 'times', text: (one) => String(one.count), align: 'right' },
  { head: 'face', text: (one) => one.face },
  { head: 'resource', text: (one) => (one.name === '' ? '-' : scopeText(one)) },
  { head: 'code', text: (one) => one.code },
  { head: 'caller', text: (one) => printable(one.actor) },
  { head: 'holder', text: (one) => printableOr(one.holder ?? '') },
  { head: 'reason', text: (one) => printable(one.reason) },
];

const COLUMNS: readonly Column<EventView>[] = [
  { head: 'id', text: (event) => event.id },
  { head: 'at', text: (event) => event.at },
  { head: 'face', text: (event) => event.face },
  { head: 'kind', text: (event) => event.kind },
  { head: 'resource', text: (event) => scopeText(event) },
  { head: 'token', text: (event) => event.fencingToken },
  { head: 'holder', text: (event) => holderIn(event).holder },
  { head: 'comment', text: (event) => holderIn(event).comment },
  { head: 'by', text: (event) => printable(event.actor) },
  { head: 'reason', text: (event) => (event.reason === null ? '' : printable(event.reason)) },
];

/** Adds the filters of a list and of the stream. */
function withFilters(command: Command): Command {
  return withResource(command).option(
    '--kind <kind>',
    `only this kind of event; repeatable: ${EVENT_KINDS.join(', ')}`,
    kinds,
  );
}

/** Adds `--face`, `--namespace` and `--name`. */
function withResource(command: Command): Command {
  return command
    .addOption(new Option('--face <face>', 'only this face').choices(FACES))
    .option('-n, --namespace <namespace>', 'only this namespace and its children')
    .option('--name <name>', 'only this name');
}

/** Prints event after event, whatever happens to the connection, until it is asked to stop. */
async function tail(cli: Cli, input: EventWatchInput): Promise<void> {
  const client = cli.client('ws');
  const stop = cli.context.signalWhileRead();
  let { afterId } = input;
  // Only a controller that stops completes it.
  while (!stop.aborted) {
    await follow<{ id: string; data: EventView }>(
      stop,
      (listener) => client.events.watch.subscribe({ ...input, afterId }, listener),
      ({ id, data }) => {
        afterId = id;
        cli.show(data, () => eventText(data));
      },
    );
  }
}

/** Adds one more kind to those that were named before. */
function kinds(text: string, before: readonly EventKind[] = []): EventKind[] {
  const kind = EVENT_KINDS.find((known) => known === text);
  if (kind === undefined) {
    throw usageFailure(`--kind must be one of ${EVENT_KINDS.join(', ')}, not "${text}".`);
  }
  return [...before, kind];
}

const FACE_WIDTH = Math.max(...FACES.map((face) => face.length));
const KIND_WIDTH = Math.max(...EVENT_KINDS.map((kind) => kind.length));

/** One line; its first word is the id, for `--after`. */
function eventText(event: EventView): string {
  const { id, at, face, kind, fencingToken, actor, reason } = event;
  const what = [face.padEnd(FACE_WIDTH), kind.padEnd(KIND_WIDTH), scopeText(event)];
  const who = `by ${printable(actor)}${reason === null ? '' : `: ${printable(reason)}`}`;
  return [id, at, ...what, `token ${fencingToken}`, who].join('  ');
}

/** `leasehold audit`. */
export function addAudit(cli: Cli, program: Command): void {
  const parent = program.command('audit').description('Show what operators did');
  addAuditLs(cli, parent);
  addAuditExport(cli, parent);
}

type AuditFilters = Omit<AuditListInput, 'windowMinutes' | 'limit'> & { readonly last?: number };

/** Adds the filters of a list and of an export. */
function withAuditFilters(command: Command): Command {
  return withTimeRange(command)
    .option('--text <text>', 'with this in the resource, the reason or the actor, in any case')
    .option('--actor <name>', 'by this actor')
    .option('--action <action>', 'of this kind, such as drones.drain')
    .option('--resource <resource>', 'to this: drone:d1, a lease id, or a name: room-1, shop/prod')
    .option('--sign-ins', 'only signing in and out')
    .option('--no-sign-ins', 'without signing in and out');
}

const AUDIT_COLUMNS: readonly Column<AuditView>[] = [
  { head: 'at', text: (entry) => entry.at },
  { head: 'actor', text: (entry) => printable(entry.actor) },
  { head: 'role', text: (entry) => entry.role },
  { head: 'action', text: (entry) => entry.action },
  { head: 'resource', text: (entry) => printable(entry.resource) },
  { head: 'reason', text: (entry) => (entry.reason === null ? '' : printable(entry.reason)) },
];

function addAuditLs(cli: Cli, parent: Command): void {
  withAuditFilters(
    withPage(cli.leaf(parent, 'ls', 'List what operators did, newest first')),
  ).action(async (options: AuditFilters & PageOptions) => {
    const page = await cli.client().audit.list.query(timeRangeOf(options));
    cli.showPage(page, 'Nothing in the audit.', AUDIT_COLUMNS);
  });
}

/** The format, the filters and the file, each only where it was given. */
type AuditExportOptions = AuditFilters & { readonly format: string; readonly file?: string };

function addAuditExport(cli: Cli, parent: Command): void {
  const command = cli
    .leaf(parent, 'export', 'Export the audit as JSON or CSV')
    .addOption(
      new Option('--format <format>', 'of the file').choices(['json', 'csv']).default('json'),
    )
    .option(
      '--file <file>',
      'the file to write, by default standard output; it appears when it is complete',
    );
  withAuditFilters(command).action(async ({ file, ...wanted }: AuditExportOptions) => {
    if (file === undefined && wanted.format === 'csv' && cli.isJson) {
      throw usageFailure('--json and --format csv exclude each other, unless there is a --file.');
    }
    const body = await download(cli, timeRangeOf(wanted));
    if (file === undefined) {
      for await (const text of body) {
        cli.context.stdout(text);
        // Also waits until it was taken: a slow reader is not to find all of the audit in our memory.
        if (await cli.context.wasAnswerLost()) break;
      }
      return;
    }
    await writeWhole(file, body);
    cli.show({ file }, () => `Written to ${file}.`);
  });
}

/** @throws {LeaseholdCallError} with the code of the controller's refusal. */
async function download(
  cli: Cli,
  wanted: Readonly<Record<string, unknown>>,
): Promise<AsyncIterable<string>> {
  const { urls, token } = cli.access();
  const params = Object.fromEntries(
    Object.entries(wanted).map(([field, value]) => [field, String(value)]),
  );
  const path = `/export/audit?${new URLSearchParams(params).toString()}`;
  const headers = { authorization: `Bearer ${token}` };
  const response = await createControllerFetch(urls)(path, { headers });
  if (!response.ok || response.body === null) throw await refusalIn(response);
  return whole(response.body.pipeThrough(new TextDecoderStream()));
}

/**
 * A controller has no other way to say that an export has failed than to end the connection.
 * @throws {CliFailure} `cli.export_incomplete` for an export that is cut off.
 */
async function* whole(body: ReadableStream<string>): AsyncGenerator<string> {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw cutOff(cause);
      });
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function cutOff(cause: unknown): CliFailure {
  let deepest = cause;
  while (deepest instanceof Error && deepest.cause !== undefined) deepest = deepest.cause;
  const why = printable(messageOf(deepest));
  return new CliFailure(`The connection ended before the export was complete: ${why}.`, {
    code: 'cli.export_incomplete',
    exitCode: EXIT_CODES.unreachable,
    hint: 'If the controller ended it, its log has the reason. An export has 1,000,000 rows at most: use --from and --to.',
    cause,
  });
}

async function refusalIn(response: Response): Promise<Error> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text) as {
      error: {
        message: string;
        data: {
          leaseholdCode: string;
          details?: Record<string, unknown>;
          incidentId?: string | null;
        };
      };
    };
    const { leaseholdCode: code, details, incidentId } = error.data;
    if (Object.hasOwn(ERROR_CODES, code)) {
      const { message } = error;
      return new LeaseholdCallError(code as ErrorCode, { message, details, incidentId });
    }
  } catch {
    // The server that answered is no controller.
  }
  return unreachable(
    `${new URL(response.url).origin} is not a controller of this version.`,
    'Set LEASEHOLD_URL to the address of a controller.',
  );
}

/** Writes under another name until it is complete, so that nobody mistakes a part for the whole. */
async function writeWhole(file: string, body: AsyncIterable<string>): Promise<void> {
  const draft = `${file}.part`;
  try {
    await pipeline(Readable.from(body), createWriteStream(draft, { mode: 0o600 }));
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}
