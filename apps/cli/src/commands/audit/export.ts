import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ERROR_CODES, LeaseError, type ErrorCode } from '@leasehold/keys-core';
import { createControllerFetch } from '@leasehold/service-kit/controllers';
import { Option, type Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { unreachable } from '../../failures/failure.ts';
import { withAuditFilters, type AuditFilters } from './filters.ts';

interface AuditExportOptions extends AuditFilters {
  readonly format: 'json' | 'csv';
  readonly output?: string;
}

/** `leasehold audit export`. */
export function addAuditExport(cli: Cli, parent: Command): void {
  withAuditFilters(
    cli
      .leaf(parent, 'export', 'Export the audit as JSON or CSV')
      .addOption(
        new Option('--format <format>', 'of the file').choices(['json', 'csv']).default('json'),
      )
      .option(
        '--output <file>',
        'the file to write, by default standard output; it appears when it is complete',
      ),
  ).action(async ({ format, output, ...options }: AuditExportOptions) => {
    const { actor, action, resource, from, to } = options;
    const body = await download(cli, { format, actor, action, resource, from, to });
    if (output === undefined) {
      for await (const text of body) cli.context.stdout(text);
      return;
    }
    await writeWhole(output, body);
    cli.show({ output }, () => `Written to ${output}.`);
  });
}

/** @throws {LeaseError} with the code of the controller's refusal. */
async function download(
  cli: Cli,
  wanted: Readonly<Record<string, string | undefined>>,
): Promise<AsyncIterable<string>> {
  const { urls, token } = cli.access();
  const asked = Object.entries(wanted).filter((entry): entry is [string, string] => {
    return entry[1] !== undefined;
  });
  const response = await createControllerFetch(urls)(
    `/export/audit?${new URLSearchParams(asked).toString()}`,
    {
      headers: { authorization: `Bearer ${token}` },
    },
  );
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
