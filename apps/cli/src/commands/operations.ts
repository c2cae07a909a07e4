import { leaseholdErrorOf } from '@leasehold/client';
import { FOUND_KINDS, type FoundKind } from '@leasehold/keys-core';
import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import type {
  DatacentersView,
  DatacenterView,
  WebhookView,
  FindInput,
  FoundAnswer,
  FoundView,
} from '../controller-api.ts';
import type { Finding } from '../doctor/controller-check.ts';
import { EXIT_CODES, refusal, usageFailure } from '../failures.ts';
import {
  type ActOptions,
  requireConfirmation,
  type ConfirmedOptions,
  withConfirmation,
  withDatacenter,
  withReason,
  missingText,
  rowsText,
  wholeNumberOf,
  withDatacenters,
} from '../options.ts';
import { endRiskText, holdOffText } from '../output/grant-text.ts';
import {
  agoText,
  type Column,
  detailsText,
  durationText,
  printable,
  printableOr,
  type Style,
  tableText,
  placed,
} from '../output/text.ts';

/** `leasehold hold-off`. */
export function addHoldOff(cli: Cli, program: Command): void {
  const parent = program
    .command('hold-off')
    .description('Show or end the hold-off of new grants after a restore');
  withDatacenter(cli.leaf(parent, 'show', 'Show whether new grants are held off, and why')).action(
    async ({ datacenter }: ActOptions) => {
      const holdOff = await cli.client().holdOff.get.query({ datacenter });
      cli.show({ holdOff }, () =>
        holdOff === null ? 'New grants are not held off.' : holdOffText(holdOff),
      );
    },
  );
  addEnd(cli, parent);
}

function addEnd(cli: Cli, parent: Command): void {
  const end = cli.leaf(
    parent,
    'end',
    'Allow new grants at once, because nobody acts on a lost grant any more',
  );
  withConfirmation(withReason(withDatacenter(end), true)).action(
    async ({ reason, datacenter, yes }: ActOptions & ConfirmedOptions & { reason: string }) => {
      const { holdOff } = cli.client();
      const seen = await holdOff.get.query({ datacenter });
      if (seen === null) {
        const none = { ended: null, remaining: null };
        cli.show(none, () => 'New grants are not held off: there is nothing to end.');
        return;
      }
      requireConfirmation({ yes }, `${holdOffText(seen)}\n${endRiskText(seen)}`);
      // Only the one that was confirmed: after another restore there is another one.
      const { epoch } = seen;
      const answer = await holdOff.end.mutate({ reason, epoch, datacenter });
      const { ended, remaining } = answer;
      if (ended === null && remaining !== null) cli.exitCode = EXIT_CODES.refused;
      cli.show(answer, () => {
        if (ended !== null) {
          return `New grants are allowed from now on, ${durationText(ended.remainingMs)} early.`;
        }
        return remaining === null
          ? 'New grants are not held off any more: there was nothing to end.'
          : `That hold-off has ended, and there is another one. ${holdOffText(remaining)}`;
      });
    },
  );
}

/** `leasehold webhook`. */
export function addWebhook(cli: Cli, program: Command): void {
  const parent = program
    .command('webhook')
    .description('Show or test the address that is told of alarms and of the audit');
  cli
    .leaf(parent, 'show', 'Show what the webhook was told, and how its last message failed')
    .action(async () => {
      const webhook = await cli.client().webhook.get.query();
      cli.show({ webhook }, () =>
        webhook === null ? 'No webhook is set: see LEASEHOLD_WEBHOOK_URL.' : webhookText(webhook),
      );
    });
  cli.leaf(parent, 'test', 'Send a message to the webhook now').action(async () => {
    const answer = await cli.client().webhook.test.mutate();
    cli.show(answer, () => 'The webhook took the message.');
  });
}

function webhookText({
  origin,
  format,
  actions,
  alarms,
  tries,
  lastError,
  sentAt,
}: WebhookView): string {
  return detailsText([
    ['address', printable(origin)],
    ['format', format],
    ['audit', actions.length === 0 ? 'nothing of the audit is sent' : actions.join(', ')],
    ['last message', sentAt ?? 'none yet'],
    ['failures of the next', String(tries)],
    ['last error', printableOr(lastError ?? '')],
    ...alarms.map((alarm) => ['alarm', printable(alarm)] as const),
  ]);
}

/** `leasehold datacenters`. */
export function addDatacenters(cli: Cli, program: Command): void {
  const parent = program
    .command('datacenters')
    .description('Show which datacenters can be reached, and give up one that is lost');
  cli
    .leaf(
      parent,
      'ls',
      'List the datacenters that the controller knows, and which of them it can reach',
    )
    .action(async () => {
      const answer = await cli.client().datacenters.list.query({});
      const { format } = cli.listing;
      const names = answer.items.map(({ name }) => name).join('\n');
      cli.show(answer, () => (format === 'name' ? names : datacentersText(answer)));
    });
  addGiveUp(cli, parent);
  addTakeBack(cli, parent);
}

interface GiveUpOptions extends ConfirmedOptions {
  readonly reason: string;
  readonly abandon?: boolean;
}

function addGiveUp(cli: Cli, parent: Command): void {
  const command = cli
    .leaf(parent, 'give-up <name>', 'Declare a datacenter lost, so that its keys get other homes')
    .option('--abandon', 'do not wait: nothing runs there, and you answer for it');
  withConfirmation(withReason(command, true)).action(
    async (datacenter: string, { reason, abandon = false, yes }: GiveUpOptions) => {
      requireConfirmation(
        { yes },
        abandon ? abandonRiskText(datacenter) : giveUpRiskText(datacenter),
      );
      const givenUp = await cli
        .client()
        .datacenters.giveUp.mutate({ datacenter, reason, abandon })
        .catch((error: unknown) => {
          throw withRemaining(error);
        });
      cli.show(givenUp, () => givenUpText(givenUp));
    },
  );
}

function addTakeBack(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'take-back <name>',
    'Undo give-up while the keys of the datacenter wait',
  );
  withReason(command, true).action(async (datacenter: string, { reason }: { reason: string }) => {
    const answer = await cli.client().datacenters.takeBack.mutate({ datacenter, reason });
    cli.show(answer, () => `${datacenter} is not given up any more: it may be started again.`);
  });
}

/** A refusal that came too early names the time that is left. */
function withRemaining(error: unknown): unknown {
  const refused = leaseholdErrorOf(error);
  if (refused?.code !== 'reservation.give_up_early') return error;
  const { remainingMs } = refused.details;
  const left =
    typeof remainingMs === 'number'
      ? `for ${durationText(remainingMs)} more`
      : 'and nobody knows for how long, because it never made known how it is set up';
  return refusal(
    refused.code,
    `Something there may still act on its keys, ${left}.`,
    'Wait and run this again, or add --abandon if you are certain that its machines are off.',
  );
}

function datacentersText({ items, store, givenUp, asOf }: DatacentersView): string {
  const kind = store.kind === 'etcd' ? 'etcd' : "this datacenter's PostgreSQL";
  const since = store.since === null ? '' : `, since ${agoText(store.since, asOf)}`;
  const state = store.isReachable
    ? 'can be reached'
    : `cannot be reached${since}: no fresh key gets a home, and no key moves`;
  const lost = givenUp.map((one) => `\n${givenUpText(one)}`).join('');
  return `${tableText(items, columnsAt(asOf))}\n\nReservation store: ${kind}; it ${state}.${lost}`;
}

const columnsAt = (asOf: string): readonly Column<DatacenterView>[] => [
  { head: 'datacenter', text: ({ name, isLocal }) => (isLocal ? `${name} (this one)` : name) },
  { head: 'reachable', text: ({ isReachable }) => (isReachable ? 'yes' : 'no') },
  { head: 'since', text: ({ since }) => (since === null ? '' : agoText(since, asOf)) },
  { head: 'why', text: ({ code }) => code ?? '' },
  {
    head: 'round trip',
    text: ({ roundTripMs }) => (roundTripMs === null ? '' : `${roundTripMs.toFixed(1)} ms`),
    align: 'right',
  },
];

type GivenUpView = DatacentersView['givenUp'][number];

/** What a declaration means, and what it asks of the person who makes it. */
function giveUpRiskText(name: string): string {
  return `Be certain that the controllers and the PostgreSQL of ${name} do not run. If it is only cut off, they go on granting its keys, and the keys would get a second home.
From the declaration on, ${name} does not start again, and a controller of it that reaches etcd stops. Its keys get other homes when every backend that it can still have has ended: run the command again then, the answer says when. Until then \`leasehold datacenters take-back ${name}\` undoes it. What its backends have stored on its machines does not come along.`;
}

/** What can go wrong when nobody waits. */
function abandonRiskText(name: string): string {
  return `With --abandon the keys of ${name} get other homes at once, permanently. If a backend, a controller or the PostgreSQL of ${name} still runs, or is started within the wait that you leave out, two backends act for one key. Do it only if its machines are off and stay off.`;
}

function givenUpText(givenUp: GivenUpView): string {
  const { datacenter, declaredAt, declaredBy, reason, opened, remainingMs } = givenUp;
  const said = `${datacenter} was given up by ${printable(declaredBy)} at ${declaredAt} (${printable(reason)})`;
  if (opened !== null) {
    const how = opened.isAbandoned ? ', without a wait' : '';
    return `${said}. Since ${opened.at}${how}, its keys get other homes: at their next connect, or by \`reservations move\`.`;
  }
  if (remainingMs === null) {
    return `${said}. Nobody knows what may still run there: its keys get other homes only with --abandon.`;
  }
  return remainingMs === 0
    ? `${said}. Nothing can act on its keys any more: run give-up again, and they get other homes.`
    : `${said}. In ${durationText(remainingMs)} nothing can act on its keys any more: run give-up again then, and they get other homes.`;
}

/** `leasehold doctor`: checks everything, and says how to correct what is wrong. */
export function addDoctor(cli: Cli, parent: Command): void {
  cli
    .leaf(
      parent,
      'doctor',
      'Check the configuration, the database, the clock, etcd, the controller, the other datacenters, the drones, the gateways, the console',
    )
    .action(async () => {
      const { examine } = await import('../doctor/examine.ts');
      const findings = await examine(cli.environment);
      const isWell = findings.every((finding) => finding.state !== 'wrong');
      cli.show({ isWell, findings }, () => doctorText(findings, cli.style));
      if (!isWell) cli.exitCode = doctorExitCode(findings);
    });
}

function doctorExitCode(findings: readonly Finding[]): number {
  const controllers = findings.filter(({ subject }) => subject === 'controller');
  const isReached = controllers.some(({ isUnreachable }) => isUnreachable !== true);
  return isReached || controllers.length === 0 ? EXIT_CODES.refused : EXIT_CODES.unreachable;
}

function doctorText(findings: readonly Finding[], style: Style): string {
  const width = Math.max(...findings.map((finding) => finding.subject.length));
  const lines = findings.map((finding) => findingText(finding, width, style));
  const wrongCount = findings.filter((finding) => finding.state === 'wrong').length;
  const verdict =
    wrongCount === 0 ? 'Nothing is wrong.' : `${String(wrongCount)} of these must be corrected.`;
  return `${lines.join('\n')}\n\n${verdict}`;
}

function findingText(finding: Finding, width: number, style: Style): string {
  const { subject, state, text, advice } = finding;
  const signs = {
    well: style.good('ok   '),
    unsure: style.warn('note '),
    wrong: style.bad('WRONG'),
    skipped: style.faint('-    '),
  };
  const line = `${signs[state]}  ${subject.padEnd(width)}  ${text}`;
  return advice === undefined
    ? line
    : `${line}\n${' '.repeat(width + 9)}${style.strong('->')} ${advice}`;
}

const FIND_HELP = `
Finds what contains the text, whatever its case: exact names first, then names that begin with it, then
the rest. Names are as they are printed: \`boards.eu/q4-roadmap\`. In a line of a log, ids of grants, tickets and backends,
fencing tokens, addresses and holders are found. People and tokens are for administrators.`;

const FOUND_COLUMNS: readonly Column<FoundView>[] = [
  { head: 'kind', text: ({ kind }) => kind },
  { head: 'name', text: ({ text }) => printable(text) },
  { head: 'state', text: ({ state }) => state },
  { head: 'held by, key or role', text: ({ detail }) => printableOr(detail, '') },
];

function kinds(text: string, before: readonly FoundKind[] = []): FoundKind[] {
  const kind = FOUND_KINDS.find((known) => known === text);
  if (kind === undefined) {
    throw usageFailure(`--kind must be one of ${FOUND_KINDS.join(', ')}, not "${text}".`);
  }
  return [...before, kind];
}

interface FindOptions {
  readonly kind?: FindInput['kinds'];
  readonly limit: number;
  readonly datacenter?: string;
}

/** `leasehold find`: anything by a part of its name. */
export function addFind(cli: Cli, program: Command): void {
  const command = cli.leaf(program, 'find <text>', 'Find anything by a part of its name');
  withDatacenters(command)
    .option(
      '--kind <kind>',
      `only of this kind; repeatable: ${FOUND_KINDS.join(', ')}; everything unless given`,
      kinds,
    )
    .option('--limit <n>', 'how many at most', wholeNumberOf('--limit'), 20)
    .addHelpText('after', FIND_HELP)
    .action(async (text: string, { kind, limit, datacenter }: FindOptions) => {
      const found = await cli.client().search.find.query({ text, kinds: kind, limit, datacenter });
      const { format } = cli.listing;
      const columns = placed(
        format === 'name' ? FOUND_COLUMNS.slice(1) : FOUND_COLUMNS,
        datacenter,
      );
      const rows = rowsText(found.items, columns, format);
      const notes = foundNotes(found);
      // What is missing may have it.
      const isUnknown =
        found.items.length === 0 && found.unreachable.length + found.failed.length > 0;
      if (isUnknown) cli.exitCode = EXIT_CODES.unreachable;
      const nothing = isUnknown
        ? 'Nothing was found, but not everything was searched.'
        : `Nothing has ${printable(text)} in its name.`;
      const shown = `${found.items.length === 0 ? nothing : rows}${notes}`;
      cli.show(found, () => (format === 'name' ? rows : shown), { notes });
    });
}

/** What was not searched. */
function foundNotes({ isComplete, failed, unreachable }: FoundAnswer): string {
  const notes = [
    ...(isComplete
      ? []
      : ['Not all names were searched: they are too many, or an upgrade is still adding some.']),
    ...(failed.length === 0 ? [] : [`Not searched this time: ${failed.join(', ')}.`]),
  ];
  return notes.map((note) => `\n\n${note}`).join('') + missingText(unreachable);
}
