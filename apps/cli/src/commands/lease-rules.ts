/** What operators set for leases: freezes of environments (`leasehold env freeze`), and permits (`leasehold leases permits`). */
import type { ControllerApi } from '@leasehold/client';
import {
  freezeNowOf,
  type FreezePlace,
  freezePlaceText,
  LIMITS,
  momentOf,
  type Named,
  namespaceProblem,
  namespaceText,
  ORDERED_ROLES,
} from '@leasehold/keys-core';
import { durationWord, readDuration } from '@leasehold/service-kit';
import { type Command, Option } from 'commander';
import type { Cli } from '../cli.ts';
import type { FreezeInput, FreezeView } from '../controller-api.ts';
import { usageFailure } from '../failures.ts';
import {
  type ActOptions,
  appendText,
  type PageOptions,
  wholeNumberOf,
  withDatacenter,
  withDatacenters,
  withDuration,
  withPage,
  withReason,
} from '../options.ts';
import { type Column, detailsText, placed, printable } from '../output/text.ts';
import { parseScope } from '../scope.ts';

/** `leasehold env freeze`. */
export function addFreezes(cli: Cli, parent: Command): void {
  const group = parent
    .command('freeze')
    .description('Freeze environments: nobody acquires them for a time, once or every week');
  addAdd(cli, group);
  addLs(cli, group);
  addRemove(cli, group);
}

const ADD_HELP = `
With an ENVIRONMENT, that one is frozen; with --namespace alone all of that namespace, children included,
and with --namespace "" all that there are.

--from and --until are instants (2026-12-18T17:00:00Z, or 17:00 for today in UTC), or times from now (2h).
--weekly and --cron come again, by the clock of --zone, in summer and in winter:

  leasehold env freeze add shop/prod --until 2h --reason "the audit is on"
  leasehold env freeze add -n shop --weekly "Fri 17:00-Mon 08:00" --zone Europe/Zurich --reason weekend
  leasehold env freeze add -n shop --cron "0 22 * * 1-4" --for 8h --zone Europe/Zurich --reason night

Those who have begun go on, unless --stop-running tells them to stop. Operators and administrators may
override a freeze with a reason; --allow-role and --allow name others instead, or besides.`;

interface AddOptions extends ActOptions {
  readonly namespace?: string;
  readonly action?: string;
  readonly reason: string;
  readonly from?: string;
  readonly until?: string;
  readonly weekly?: string;
  readonly cron?: string;
  readonly for?: number;
  readonly zone?: string;
  readonly allowRole: readonly NonNullable<FreezeInput['allowRoles']>[number][];
  readonly allow: readonly string[];
  readonly stopRunning?: boolean;
}

function addAdd(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'add [environment]', 'Freeze environments');
  withDuration(command, '--for', {
    about: 'with --cron: how long each window lasts',
    range: [LIMITS.freezeMsMin, LIMITS.freezeMsMax],
  });
  withReason(withDatacenter(command), true)
    .option(
      '-n, --namespace <namespace>',
      'all of this namespace; with an environment, its namespace',
    )
    .option('--action <action>', 'only this action; all by default')
    .option('--from <instant>', 'when it begins; by default now')
    .option('--until <instant>', 'when it ends')
    .option('--weekly <window>', 'every week: "Fri 17:00-Mon 08:00"')
    .option('--cron <fields>', 'when each window begins: five fields of cron; with --for')
    .option('--zone <zone>', 'with --weekly and --cron: an IANA time zone; by default UTC')
    .addOption(
      new Option(
        '--allow-role <role>',
        'who may override it, instead of operator and admin; may be repeated',
      )
        .choices(ORDERED_ROLES)
        .argParser(appendText)
        .default([], 'operator and admin'),
    )
    .option(
      '--allow <name>',
      'who may override it too: a token, or a person; from another datacenter NAME@DATACENTER; may be repeated',
      appendText,
      [],
    )
    .option('--stop-running', 'tell those who hold it now to stop')
    .addHelpText('after', ADD_HELP)
    .action(async (text: string | undefined, options: AddOptions) => {
      const client = cli.client();
      const input = await inputOf(client, text, options);
      const answer = await client.environments.freeze.mutate(input);
      const warning = await unknownText(client, input);
      cli.show(answer, () => {
        const { freeze, stopped } = answer;
        const told = stopped === 0 ? '' : ` ${String(stopped)} holders were told to stop.`;
        return `${placeText(freeze)} is frozen ${whenText(freeze)}: ${printable(freeze.reason)}.${told}\nFreeze ${freeze.freezeId}.${warning}`;
      });
    });
}

/** A misspelled environment can be frozen, too: that freezes nothing that anybody uses. */
async function unknownText(
  client: ControllerApi,
  { namespace, name, datacenter }: FreezeInput,
): Promise<string> {
  if (name === undefined) return '';
  const environment = { namespace, name, datacenter };
  // The freeze is made: that this cannot be read is no failure of it.
  const isKnown = await Promise.all([
    client.environments.get.query(environment),
    // Of what nobody has held for long only the history is left.
    client.environments.history.query({ ...environment, limit: 1 }),
  ]).then(
    ([lease, { items }]) => lease !== null || items.length > 0,
    () => true,
  );
  if (isKnown) return '';
  return '\nNobody has held this environment yet: is its name right? `--namespace` freezes all environments of a namespace.';
}

async function inputOf(
  client: ControllerApi,
  text: string | undefined,
  options: AddOptions,
): Promise<FreezeInput> {
  const { action, reason, datacenter, allowRole, allow, stopRunning } = options;
  for (const role of allowRole) {
    if (!ORDERED_ROLES.includes(role)) {
      throw usageFailure(`--allow-role must be ${ORDERED_ROLES.join(', ')}, not "${role}".`);
    }
  }
  return {
    ...placeOf(text, options.namespace),
    ...(await timesOf(client, options)),
    reason,
    action,
    datacenter,
    stopRunning,
    allowRoles: allowRole.length === 0 ? undefined : [...allowRole],
    allowPeople: allow.length === 0 ? undefined : [...allow],
  };
}

function placeOf(
  text: string | undefined,
  namespace: string | undefined,
): { readonly namespace: string; readonly name?: string } {
  if (text !== undefined) return parseScope(text, namespace);
  if (namespace !== undefined) return { namespace };
  throw usageFailure(
    'Name an environment, or a --namespace: all of it is frozen then.',
    '`--namespace ""` freezes all environments.',
  );
}

/** When it is frozen. Times from now are counted by the clock of the database. */
async function timesOf(
  client: ControllerApi,
  { from, until, weekly, cron, for: durationMs, zone, datacenter }: AddOptions,
): Promise<Pick<FreezeInput, 'from' | 'until' | 'recurrence'>> {
  const ways = [until ?? from, weekly, cron].filter((way) => way !== undefined);
  if (ways.length !== 1) throw usageFailure('Give one of --until, --weekly and --cron.');
  if (durationMs !== undefined && cron === undefined) {
    throw usageFailure('--for goes with --cron only: --weekly and --until name the end.');
  }
  const clock = zone ?? 'UTC';
  if (weekly !== undefined) return { recurrence: { ...weeklyOf(weekly), zone: clock } };
  if (cron !== undefined) {
    if (durationMs === undefined) throw usageFailure('--cron needs --for, such as --for 8h.');
    return { recurrence: { schedule: cron, durationMs, zone: clock } };
  }
  if (zone !== undefined) {
    throw usageFailure(
      '--zone goes with --weekly and --cron only.',
      'Give --from and --until with their offset, such as 2026-12-18T17:00:00+01:00.',
    );
  }
  if (until === undefined) throw usageFailure('--from needs --until.');
  const { asOf } = await client.environments.freezes.query({ limit: 1, datacenter });
  return {
    from: from === undefined ? undefined : instantOf('--from', from, asOf),
    until: instantOf('--until', until, asOf),
  };
}

function instantOf(name: string, text: string, asOf: string): string {
  const instant = momentOf(text, asOf.slice(0, 10));
  if (instant !== null) return instant;
  const ms = readDuration(text);
  if (ms !== undefined) return new Date(Date.parse(asOf) + ms).toISOString();
  throw usageFailure(
    `${name} must be an instant such as 2026-12-18T17:00:00Z, or a time from now such as 2h, not "${text}".`,
  );
}

const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const WEEKLY =
  /^(?<day>[a-z]{3,9}) +(?<at>\d{1,2}:\d{2}) *- *(?:(?<endDay>[a-z]{3,9}) +)?(?<endAt>\d{1,2}:\d{2})$/iu;
const MINUTE_MS = 60_000;
const DAY_MINUTES = 24 * 60;

/**
 * The windows of a text such as `Fri 17:00-Mon 08:00`, or `Sat 10:00-14:00`. Without an end day they end within 24 hours.
 * @throws {CliFailure} `cli.usage`.
 */
export function weeklyOf(text: string): { schedule: string; durationMs: number } {
  const { day = '', at = '', endDay, endAt = '' } = WEEKLY.exec(text.trim())?.groups ?? {};
  const [begin, end] = [minuteOf(day, at), minuteOf(endDay ?? day, endAt)];
  if (begin === undefined || end === undefined || (begin === end && endDay !== undefined)) {
    throw usageFailure(`--weekly must be such as "Fri 17:00-Mon 08:00", not "${text}".`);
  }
  const minute = begin % DAY_MINUTES;
  const fields = [minute % 60, Math.floor(minute / 60), '*', '*', Math.floor(begin / DAY_MINUTES)];
  // Without an end day the end may be after midnight, as in "Fri 22:00-02:00".
  const minutes = minutesBetween(begin, end, endDay === undefined ? 1 : 7);
  return { schedule: fields.join(' '), durationMs: minutes * MINUTE_MS };
}

/** To an end that comes again every so many days. */
function minutesBetween(begin: number, end: number, days: number): number {
  return end > begin ? end - begin : end - begin + days * DAY_MINUTES;
}

/** Of the week, which begins on Sunday. */
function minuteOf(day: string, at: string): number | undefined {
  const index = DAYS.indexOf(day.slice(0, 3).toLowerCase());
  const [hour = NaN, minute = NaN] = at.split(':').map(Number);
  const isTime = hour < 24 && minute < 60;
  return index === -1 || !isTime ? undefined : index * DAY_MINUTES + hour * 60 + minute;
}

type LsOptions = PageOptions & ActOptions & { readonly namespace?: string; readonly all?: boolean };

function addLs(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'ls [environment]', 'List freezes, with their next windows');
  withDatacenters(withPage(command))
    .option('-n, --namespace <namespace>', 'in this namespace and its children')
    .option('--all', 'include those that are over or were removed')
    .action(async (text: string | undefined, { all, namespace, ...page }: LsOptions) => {
      const freezes = await cli.client().environments.freezes.query({
        ...page,
        withHistory: all,
        ...(text === undefined ? { namespace } : { environment: segmentsOf(text, namespace) }),
      });
      const empty = all === true ? 'No freezes.' : 'No freezes; --all lists those that are over.';
      const items = [...freezes.items].sort((a, b) => (beginOf(a) < beginOf(b) ? -1 : 1));
      cli.showPage({ ...freezes, items }, empty, columnsOf(page.datacenter));
    });
}

function segmentsOf(text: string, namespace: string | undefined): string[] {
  const scope = parseScope(text, namespace);
  return scope.namespace === '' ? [scope.name] : [...scope.namespace.split('.'), scope.name];
}

function beginOf({ windows }: FreezeView): string {
  return windows[0]?.from ?? '';
}

function columnsOf(datacenter: string | undefined): readonly Column<FreezeView>[] {
  return placed<FreezeView>(
    [
      { head: 'freeze', text: ({ freezeId }) => freezeId },
      { head: 'environments', text: placeText },
      { head: 'action', text: ({ action }) => (action === null ? '' : printable(action)) },
      { head: 'state', text: ({ state }) => state },
      { head: 'from', text: beginOf },
      { head: 'until', text: ({ windows }) => windows[0]?.until ?? '-' },
      { head: 'recurs', text: recurrenceText },
      { head: 'reason', text: ({ reason }) => printable(reason) },
      { head: 'by', text: ({ createdBy }) => printable(createdBy), isWide: true },
      {
        head: 'may override',
        text: ({ allow }) =>
          [...allow.roles, ...allow.people].map(printable).join(', ') || 'nobody',
        isWide: true,
      },
      {
        head: 'removed',
        text: ({ removedAt, removedBy, removedReason }) =>
          removedAt === null
            ? ''
            : `${removedAt} by ${printable(removedBy ?? '')}: ${printable(removedReason ?? '')}`,
        isWide: true,
      },
    ],
    datacenter,
  );
}

function recurrenceText({ recurrence }: FreezeView): string {
  if (recurrence === null) return '';
  const { schedule, durationMs, zone } = recurrence;
  return `${schedule} for ${durationWord(durationMs)}, ${zone}`;
}

function addRemove(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'remove <freeze>', 'End a freeze, by its id');
  withReason(withDatacenter(command), true).action(
    async (freezeId: string, { reason, datacenter }: ActOptions & { readonly reason: string }) => {
      const act = { freezeId, reason, datacenter };
      const answer = await cli.client().environments.unfreeze.mutate(act);
      cli.show(answer, () => `${placeText(answer.freeze)} is not frozen by it any more.`);
    },
  );
}

function placeText(place: FreezePlace): string {
  return printable(freezePlaceText(place));
}

function whenText(freeze: FreezeView): string {
  const { windows, state } = freeze;
  const { from = '-', until = '-' } = windows[0] ?? {};
  const when = state === 'frozen' ? `until ${until}` : `from ${from} to ${until}`;
  return freeze.recurrence === null ? when : `${when} and again (${recurrenceText(freeze)})`;
}

/** The freezes that are not over, for lists of environments. */
export async function readFreezes(
  client: ControllerApi,
  datacenter: string | undefined,
): Promise<readonly FreezeView[]> {
  const found: FreezeView[] = [];
  let cursor: string | undefined;
  do {
    const asked = { limit: LIMITS.pageSizeMax, datacenter, cursor };
    const { items, nextCursor } = await client.environments.freezes.query(asked);
    found.push(...items);
    cursor = nextCursor ?? undefined;
  } while (cursor !== undefined);
  return found;
}

/** Until when and why an environment is frozen; '' if it is not. */
export function frozenText(
  freezes: readonly FreezeView[],
  environment: Named & { readonly datacenter: string },
): string {
  const freeze = freezeNowOf(freezes, environment);
  if (freeze === undefined) return '';
  const action = freeze.action === null ? '' : `${printable(freeze.action)} `;
  return `${action}until ${freeze.windows[0]?.until ?? ''} because ${printable(freeze.reason)}`;
}

/** How many may hold the leases of a namespace at once: `leasehold leases permits`. */
export function addPermits(cli: Cli, parent: Command): void {
  const group = parent
    .command('permits')
    .description('Show and set how many may hold the leases of a namespace at once');
  addShowPermits(cli, group);
  addSet(cli, group);
}

const NAMESPACE_HELP = `
NAMESPACE is the segments joined by ".", without children; "" is the root namespace.`;

function addShowPermits(cli: Cli, parent: Command): void {
  const about = 'Show how many may hold each lease, and all together, and who has said so';
  withDatacenter(cli.leaf(parent, 'show <namespace>', about))
    .addHelpText('after', NAMESPACE_HELP)
    .action(async (text: string, { datacenter }: ActOptions) => {
      const namespace = parseNamespace(text);
      const asked = { namespace, datacenter, limit: 1 };
      const { items, asOf } = await cli.client().leases.declared.query(asked);
      const [declaration] = items;
      const { permits = null, held = 0, waiting = 0 } = declaration ?? {};
      cli.show({ namespace, permits, held, waiting, asOf }, () =>
        permits === null
          ? `No number of permits is set for ${nameOf(namespace)}.`
          : detailsText([
              ['namespace', nameOf(namespace)],
              ['for each key', String(permits.perKey)],
              ['for all keys', permits.total === null ? 'no limit' : String(permits.total)],
              ['set by', printable(permits.by)],
              ['held', String(held)],
              ['waiting', String(waiting)],
            ]),
      );
    });
}

const SET_HELP = `
  leasehold leases permits set exports.tenant --per-key 2 --total 20 --reason "the new export workers"

It stays in force, whatever services declare. With fewer permits nobody is stopped: the next one is granted when there
is room. A --total that is new counts all who hold a permit; without --total only each key has a limit.
\`leases acquire\` and \`leases run\` take a permit with --permit.
${NAMESPACE_HELP}`;

interface SetOptions extends ActOptions {
  readonly perKey: number;
  readonly total?: number;
  readonly reason: string;
}

function addSet(cli: Cli, parent: Command): void {
  const about = 'Set how many may hold each lease of a namespace at once, and all together';
  withReason(withDatacenter(cli.leaf(parent, 'set <namespace>', about)), true)
    .requiredOption(
      '--per-key <n>',
      `how many may hold one key, up to ${String(LIMITS.permitsMax)}`,
      permitsOf('--per-key'),
    )
    .option('--total <n>', 'how many may hold all keys together', permitsOf('--total'))
    .addHelpText('after', SET_HELP)
    .action(async (text: string, options: SetOptions) => {
      const { perKey, reason, datacenter } = options;
      const total = options.total ?? null;
      const namespace = parseNamespace(text);
      const permits = { perKey, total };
      const answer = await cli
        .client()
        .leases.setPermits.mutate({ namespace, permits, reason, datacenter });
      const together = total === null ? '' : `, and ${String(total)} all keys together`;
      cli.show(
        answer,
        () => `Set: ${String(perKey)} may hold each key of ${nameOf(namespace)}${together}.`,
      );
    });
}

/** @throws {CliFailure} `cli.usage` for a text that cannot be a namespace. */
function parseNamespace(text: string): string {
  const problem = namespaceProblem(text);
  if (problem === undefined) return text;
  throw usageFailure(`The namespace ${printable(text)} ${problem}.`);
}

/** Reads the value of an option as a number of permits. @throws {CliFailure} `cli.usage`. */
function permitsOf(name: string): (text: string) => number {
  const read = wholeNumberOf(name);
  return (text) => {
    const count = read(text);
    if (count >= 1 && count <= LIMITS.permitsMax) return count;
    throw usageFailure(`${name} must be from 1 to ${String(LIMITS.permitsMax)}, not ${text}.`);
  };
}

function nameOf(namespace: string): string {
  return printable(namespaceText(namespace));
}
