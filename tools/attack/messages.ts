/**
 * How long one message may hold the event loop: each procedure gets, from each role, the worst messages that
 * pass its bounds, and the time is measured in which they are parsed and checked, in one turn of the event loop.
 */
import { MESSAGE_MS_MAX, PROCEDURES, bounded, messageBound } from '@leasehold/api';
import { randomUUID } from 'node:crypto';
import { LIMITS, ROLES, roleAllows, type Role } from '@leasehold/keys-core';
import { callsIn } from '../../apps/controller/src/http/calls/inbox.ts';

/** The shortest of some tries: what else the machine does only adds to it. */
const TRIES = 5;
const WORST_SHOWN = 5;

export interface Held {
  readonly path: string;
  readonly role: Role;
  readonly what: string;
  readonly bytes: number;
  /** Processor time. */
  readonly ms: number;
}

/** Texts of about so many bytes and values, of one kind each. */
const SHAPES: Readonly<Record<string, (count: number, bytes: number) => string>> = {
  numbers: (count) => `[${'1,'.repeat(count)}1]`,
  lists: (count) => `[${'[],'.repeat(count / 2)}1]`,
  objects: (count) => `[${'{},'.repeat(count / 2)}1]`,
  'lists in lists': (count) =>
    `${'['.repeat(Math.min(count, 5_000))}1${']'.repeat(Math.min(count, 5_000))}`,
  'unknown fields': (count) => fieldsOf(count, '1'),
  texts: (count, bytes) => `[${`"${'x'.repeat(Math.max(0, bytes / count - 3))}",`.repeat(count)}1]`,
  'one text': (_count, bytes) => `"${'x'.repeat(bytes)}"`,
  'one text of escapes': (_count, bytes) => `"${'\\u00e9'.repeat(bytes / 6)}"`,
  'the most numbers of a list': (count) =>
    `[${'1,'.repeat(Math.min(count, LIMITS.renewalsPerCallMax) - 1)}1]`,
  grants: (count, bytes) => {
    const most = Math.floor(Math.min(count / 3, bytes / 90, LIMITS.renewalsPerCallMax));
    const one = (): string => `{"leaseId":"${randomUUID()}","fencingToken":"9007199254740993"}`;
    return `[${Array.from({ length: most }, one).join(',')}]`;
  },
};

function fieldsOf(count: number, value: string): string {
  return `{${Array.from({ length: count }, (_, nth) => `"${nth.toString(36)}":${value}`).join(',')}}`;
}

const IN_FIELDS = [
  'numbers',
  'objects',
  'unknown fields',
  'one text',
  'the most numbers of a list',
  'grants',
];

/** The times of all procedures, roles and shapes, the longest first. */
export async function measureMessages(): Promise<Held[]> {
  const held: Held[] = [];
  for (const [path, { inputs, meta }] of PROCEDURES) {
    for (const role of differingRoles(path)) {
      // A procedure asks for the role first.
      const mayCall = meta !== undefined && roleAllows(role, meta.role);
      const check = mayCall ? inputs.map((schema) => bounded(schema)) : [];
      for (const [what, text] of worstOf(path, role)) {
        const message = Buffer.from(text);
        const tries = [await timeOf(message, role, check)];
        while (Math.min(...tries) > MESSAGE_MS_MAX / 2 && tries.length < TRIES) {
          tries.push(await timeOf(message, role, check));
        }
        held.push({ path, role, what, bytes: message.length, ms: Math.min(...tries) });
      }
    }
  }
  return held.sort((a, b) => b.ms - a.ms);
}

/** One role for each bound that a procedure has, and for its roles and others: nothing else makes a difference. */
function differingRoles(path: string): Role[] {
  const needed = PROCEDURES.get(path)?.meta?.role ?? 'admin';
  const kindOf = (role: Role): string =>
    JSON.stringify([messageBound([path], role), roleAllows(role, needed)]);
  return [...new Map(ROLES.map((role) => [kindOf(role), role])).values()];
}

/** Each shape as the input itself, and some of them in each of its fields. */
function* worstOf(path: string, role: Role): Generator<readonly [string, string]> {
  const { bytesMax, valuesMax } = messageBound([path], role);
  for (const [name, make] of Object.entries(SHAPES)) {
    const places = ['', ...(IN_FIELDS.includes(name) ? fieldsOfInput(path) : [])];
    for (const field of places) {
      const bytes = bytesMax - 200 - field.length;
      const shape = make(Math.floor(Math.min(valuesMax - 10, bytes / 8)), bytes);
      const input = field === '' ? shape : `{"${field}":${shape}}`;
      yield [
        field === '' ? name : `${name} in ${field}`,
        `{"id":1,"method":"mutation","params":{"path":"${path}","input":${input}}}`,
      ];
    }
  }
}

function fieldsOfInput(path: string): string[] {
  const [schema] = PROCEDURES.get(path)?.inputs ?? [];
  let inner: unknown = schema;
  while (typeof inner === 'object' && inner !== null && !('shape' in inner)) {
    const { def } = inner as { def?: { innerType?: unknown; in?: unknown } };
    inner = def?.innerType ?? def?.in;
  }
  return inner === undefined || inner === null
    ? []
    : Object.keys((inner as { shape: object }).shape);
}

/** The processor time of the longest turn of the event loop that a message takes. */
async function timeOf(
  message: Buffer,
  role: Role,
  check: readonly { parse(input: unknown): unknown }[],
): Promise<number> {
  let longestMs = 0;
  let before = process.cpuUsage();
  const endTurn = (): void => {
    const { user, system } = process.cpuUsage(before);
    longestMs = Math.max(longestMs, (user + system) / 1_000);
    before = process.cpuUsage();
  };
  let ticker = setImmediate(function tick() {
    endTurn();
    ticker = setImmediate(tick);
  });
  try {
    for (const { params } of callsIn(message.toString(), role)) {
      for (const schema of check) await schema.parse(params?.input);
    }
  } catch {
    // Refused, as nearly all of them are.
  }
  endTurn();
  clearImmediate(ticker);
  return longestMs;
}

/** One line for each of the longest. */
export function messagesText(held: readonly Held[]): string {
  const head = `${String(held.length)} messages of ${String(PROCEDURES.size)} procedures; one may take ${String(MESSAGE_MS_MAX)} ms; the longest:`;
  const lines = held.slice(0, WORST_SHOWN).map(({ path, role, what, bytes, ms }) => {
    const kib = Math.round(bytes / 1_024);
    return `  ${ms.toFixed(1).padStart(6)} ms  ${path} of a ${role}: ${what}, ${String(kib)} KiB`;
  });
  return [head, ...lines].join('\n');
}
