import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ERROR_CODES, LeaseError, type ErrorCode } from '@leasehold/keys-core';
import { createControllerFetch } from '@leasehold/service-kit/controllers';
import { Option, type Command } from 'commander';
import type { Cli } from '../cli.ts';
import type { AuditListInput, AuditView } from '../controller-api.ts';
import { unreachable } from '../failures.ts';
import { timeRangeOf, withPage, withTimeRange, type PageOptions } from '../options.ts';
import { printable, type Column } from '../output/text.ts';

/** `leasehold audit`. */
export function addAudit(cli: Cli, program: Command): void {
  const parent = program.command('audit').description('Show what operators did');
  addLs(cli, parent);
  addExport(cli, parent);
}

type Filters = Omit<AuditListInput, 'windowMinutes' | 'limit'> & { readonly last?: number };

/** Adds the filters of a list and of an export. */
function withFilters(command: Command): Command {
  return withTimeRange(command)
    .option('--text <text>', 'with this in the resource, the reason or the actor, in any case')
    .option('--actor <name>', 'by this actor')
    .option('--action <procedure>', 'of this kind, such as drones.drain')
    .option('--resource <resource>', 'to this: drone:d1, a lease id, or the name of a key')
    .option('--sign-ins', 'only signing in and out')
    .option('--no-sign-ins', 'without signing in and out');
}

const COLUMNS: readonly Column<AuditView>[] = [
  { head: 'at', text: (entry) => entry.at },
  { head: 'actor', text: (entry) => printable(entry.actor) },
  { head: 'role', text: (entry) => entry.role },
  { head: 'action', text: (entry) => entry.action },
  { head: 'resource', text: (entry) => printable(entry.resource) },
  { head: 'reason', text: (entry) => (entry.reason === null ? '' : printable(entry.reason)) },
];

function addLs(cli: Cli, parent: Command): void {
  withFilters(withPage(cli.leaf(parent, 'ls', 'List what operators did, newest first'))).action(
    async (options: Filters & PageOptions) => {
      const page = await cli.client().audit.list.query(timeRangeOf(options));
      cli.showPage(page, 'Nothing in the audit.', COLUMNS);
    },
  );
}

/** The format, the filters and the file, each only where it was given. */
type ExportOptions = Filters & { readonly format: string; readonly file?: string };

function addExport(cli: Cli, parent: Command): void {
  const command = cli
    .leaf(parent, 'export', 'Export the audit as JSON or CSV')
    .addOption(
      new Option('--format <format>', 'of the file').choices(['json', 'csv']).default('json'),
    )
    .option(
      '--file <file>',
      'the file to write, by default standard output; it appears when it is complete',
    );
  withFilters(command).action(async ({ file, ...wanted }: ExportOptions) => {
    const body = await download(cli, timeRangeOf(wanted));
    if (file === undefined) {
      for await (const text of body) cli.context.stdout(text);
      return;
    }
    await writeWhole(file, body);
    cli.show({ file }, () => `Written to ${file}.`);
  });
}

/** @throws {LeaseError} with the code of the controller's refusal. */
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
  return response.body.pipeThrough(new TextDecoderStream());
}

async function refusalIn(response: Response): Promise<Error> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text) as {
      error: { message: string; data: { leaseholdCode: string } };
    };
    const code = error.data.leaseholdCode;
    if (Object.hasOwn(ERROR_CODES, code)) return new LeaseError(code as ErrorCode, error.message);
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
