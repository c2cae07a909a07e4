import type { ControllerApi } from '@leasehold/client';
import { momentOf } from '@leasehold/keys-core';
import { type Command, InvalidArgumentError } from 'commander';
import { printable, printableOr } from './printable.ts';
import { detailsText } from './table.ts';

type Moment = Awaited<ReturnType<ControllerApi['keys']['at']['query']>>;
type Grant = NonNullable<Moment['grant']>;

/** Of a command that can show a past moment. */
export interface MomentOptions {
  /** ISO-8601. */
  readonly at?: string;
}

/** Adds `--at`. */
export function withMoment(command: Command): Command {
  return command.option(
    '--at <instant>',
    'who held it then, by the database clock: 2026-11-25T03:12:00Z, or 03:12 for today in UTC',
    parseMoment,
  );
}

/** @throws {InvalidArgumentError} for what is no moment. */
function parseMoment(text: string): string {
  const moment = momentOf(text, new Date().toISOString().slice(0, 10));
  if (moment !== null) return moment;
  throw new InvalidArgumentError(
    'It must be an instant such as 2026-11-25T03:12:00Z, or a time of today in UTC such as 03:12.',
  );
}

/** Who held it, and what is not known. */
export function momentText(noun: string, name: string, moment: Moment): string {
  const { at, phase, grant, oldestAt } = moment;
  if (phase === 'unknown') {
    return `What happened to ${noun} ${name} at ${at} is not kept. The oldest moment that is kept is ${oldestAt ?? '-'}.`;
  }
  const isHeld = phase !== 'free';
  const head: [string, string][] = [
    [noun, name],
    ['at', at],
    ['phase', phase],
  ];
  if (grant === null) return detailsText(head);
  return detailsText([
    ...head,
    [isHeld ? 'holder' : 'last holder', printableOr(grant.holder, 'not kept')],
    ['fencing token', grant.fencingToken],
    ['lease id', grant.leaseId],
    ['since', grant.since ?? 'not kept'],
    ['until', untilText(grant)],
    ...(grant.end === null
      ? []
      : [['ended', actText(grant.end.kind, grant.end)] as [string, string]]),
    ...(grant.blocked === null
      ? []
      : [['renewal blocked', actText(grant.blocked.at, grant.blocked)] as [string, string]]),
    ['datacenter', moment.datacenter],
  ]);
}

function untilText({ until, end }: Grant): string {
  if (until === null) return '-';
  return end?.kind === 'expired' ? `${until}, or some time before` : until;
}

function actText(
  what: string,
  { actor, reason }: { actor: string; reason: string | null },
): string {
  const why = reason === null ? '' : `: ${printable(reason)}`;
  return `${what} by ${printable(actor)}${why}`;
}
