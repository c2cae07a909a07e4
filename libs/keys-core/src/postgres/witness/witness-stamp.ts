/**
 * What a process has seen of the database, as it is sent to drones and clients: one line of text, signed
 * with a secret that is in the database. A witness that sends it back shows that the database was once
 * this far. Nobody else can make a stamp, and one that was made with another secret is ignored.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { compareFencingTokens } from '../../kernel/lease.ts';
import { LIMITS } from '../../kernel/limits.ts';

/** How far a process has seen the database. */
export interface WitnessMark {
  /** The process's own row in `database_witness`. */
  readonly witnessId: string;
  /** The newest beat of that row that the database has confirmed. */
  readonly beat: number;
  /** When that was, in epoch milliseconds of the database. */
  readonly at: number;
  /** In which run of the server that was: its start, in epoch microseconds. */
  readonly run: string;
  /** A position of the write-ahead log that was surely on the disk: `X/Y`, as PostgreSQL has it. */
  readonly position: string;
}

/** A mark, and the database epoch that it belongs to. */
export interface WitnessStamp extends WitnessMark {
  readonly epoch: number;
  /** The token of that epoch: two restores of one backup may get the same number. */
  readonly epochToken: string;
  /** The largest fencing token that the process has given. */
  readonly fencingToken: string;
}

/** A position of the write-ahead log, and the run of the server that it is from; see {@link WitnessMark}. */
export type LogPlace = Pick<WitnessMark, 'run' | 'position'>;

/** What an answer has shown about the database. */
export interface Seen {
  /** On the disk once the answer is committed. */
  readonly place?: LogPlace;
  /** The largest fencing token that was given. */
  readonly fencingToken?: string;
}

const SEPARATOR = '.';
/** A stamp of version 1, without its signature. */
const FORM = new RegExp(
  [
    '^1',
    '(?<witnessId>UUID)',
    String.raw`(?<beat>\d{1,15})`,
    String.raw`(?<at>\d{1,15})`,
    String.raw`(?<run>\d{1,19})`,
    '(?<position>[0-9A-F]{1,8}/[0-9A-F]{1,8})',
    String.raw`(?<epoch>\d{1,10})`,
    '(?<epochToken>UUID)',
    String.raw`(?<fencingToken>\d{1,19})$`,
  ]
    .join(String.raw`\.`)
    .replaceAll('UUID', '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'),
  'u',
);

export function writeStamp(stamp: WitnessStamp, secret: string): string {
  const text = [
    '1',
    stamp.witnessId,
    stamp.beat,
    Math.floor(stamp.at),
    stamp.run,
    stamp.position,
    stamp.epoch,
    stamp.epochToken,
    stamp.fencingToken,
  ].join(SEPARATOR);
  return `${text}${SEPARATOR}${signatureOf(text, secret)}`;
}

/** What a stamp says; undefined when it was not made with this secret, or is not a stamp at all. */
export function readStamp(line: string, secret: string): WitnessStamp | undefined {
  if (line.length > LIMITS.witnessBytesMax) return undefined;
  const end = line.lastIndexOf(SEPARATOR);
  const text = line.slice(0, end);
  if (!isSame(line.slice(end + 1), signatureOf(text, secret))) return undefined;
  const said = FORM.exec(text)?.groups;
  if (said === undefined) return undefined;
  const { witnessId = '', run = '', position = '', epochToken = '', fencingToken = '' } = said;
  const numbers = {
    beat: Number(said['beat']),
    at: Number(said['at']),
    epoch: Number(said['epoch']),
  };
  return { witnessId, run, position, epochToken, fencingToken, ...numbers };
}

function signatureOf(text: string, secret: string): string {
  return createHmac('sha256', secret).update(text).digest('base64url');
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

/** Negative, zero or positive as position `a` is before, at or after `b`. */
export function comparePositions(a: string, b: string): number {
  const difference = bytesOf(a) - bytesOf(b);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

export function laterToken(a: string, b: string): string {
  return compareFencingTokens(a, b) >= 0 ? a : b;
}

/**
 * The later of two places, of which the second was seen just now. Places of different runs are not
 * compared: a server that was restored may begin behind where it was.
 */
export function laterPlace(known: LogPlace, seen: LogPlace): LogPlace {
  const isKnownLater =
    known.run === seen.run && comparePositions(known.position, seen.position) > 0;
  return isKnownLater ? known : seen;
}

function bytesOf(position: string): bigint {
  const [high = '0', low = '0'] = position.split('/');
  return (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`);
}
