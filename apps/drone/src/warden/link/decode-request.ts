/** Checks what the agent sends. By hand, because the warden keeps its memory small. */
import {
  ProtocolError,
  USER_NUMBER_MAX,
  type CommandLimits,
  type ContainerRequest,
  type ExtendRequest,
  type ProgramPlaces,
  type Request,
  type StartRequest,
  type StopRequest,
  type UserIds,
} from './protocol.ts';

type Fields = Readonly<Record<string, unknown>>;

/** @throws {ProtocolError} naming the field. */
export function decodeRequest(line: string): Request {
  const message = fieldsOf(parseJson(line), 'request');
  const id = numberOf(message, 'id');
  switch (message['op']) {
    case 'peek':
    case 'hello':
      return {
        id,
        op: message['op'],
        protocol: numberOf(message, 'protocol'),
        secret: stringOf(message, 'secret'),
      };
    case 'start':
      return { id, op: 'start', backend: decodeStart(fieldsOf(message['backend'], 'backend')) };
    case 'extend':
      return {
        id,
        op: 'extend',
        items: listOf(message, 'items').map((item) => decodeExtend(fieldsOf(item, 'items'))),
      };
    case 'stop':
      return { id, op: 'stop', stop: decodeStop(fieldsOf(message['stop'], 'stop')) };
    case 'note':
      return {
        id,
        op: 'note',
        backendId: idOf(message, 'backendId'),
        meta: message['meta'] ?? null,
      };
    case 'alive':
    case 'list':
    case 'shutdown':
      return { id, op: message['op'] };
    case 'forget':
      return { id, op: 'forget', backendId: idOf(message, 'backendId') };
    default:
      throw new ProtocolError(`unknown op ${JSON.stringify(message['op'])}`);
  }
}

function decodeStart(fields: Fields): StartRequest {
  const common = {
    ...decodeExtend(fields),
    hardAfterMs: numberOf(fields, 'hardAfterMs'),
    softToHardMs: numberOf(fields, 'softToHardMs'),
    leashMs: numberOf(fields, 'leashMs'),
    program: idOf(fields, 'program'),
    stopSignal: matching(fields, 'stopSignal', {
      form: /^SIG[A-Z0-9]{2,10}$/u,
      rule: 'the name of a signal',
    }),
    stopGraceMs: numberOf(fields, 'stopGraceMs'),
    meta: fields['meta'] ?? null,
  };
  if (fields['container'] !== undefined) {
    return { ...common, container: decodeContainer(fieldsOf(fields['container'], 'container')) };
  }
  return {
    ...common,
    user: fields['user'] === null ? null : decodeUser(fieldsOf(fields['user'], 'user')),
    places: decodePlaces(fieldsOf(fields['places'], 'places')),
    command: stringOf(fields, 'command'),
    args: listOf(fields, 'args').map((arg) => text(arg, 'args')),
    env: Object.fromEntries(
      Object.entries(fieldsOf(fields['env'], 'env')).map(([name, value]) => [
        name,
        text(value, 'env'),
      ]),
    ),
    cwd: fields['cwd'] === null ? null : absolute(fields['cwd'], 'cwd'),
    limits:
      fields['limits'] === undefined
        ? undefined
        : decodeLimits(fieldsOf(fields['limits'], 'limits')),
  };
}

function decodeContainer(fields: Fields): ContainerRequest {
  return {
    engine: absolute(fields['engine'], 'engine'),
    name: idOf(fields, 'name'),
    keyId: stringOf(fields, 'keyId'),
    memory: stringOf(fields, 'memory'),
    create: fieldsOf(fields['create'], 'create'),
  };
}

function decodeLimits(fields: Fields): CommandLimits {
  return {
    memoryBytes: wholeOf(fields, 'memoryBytes'),
    pids: wholeOf(fields, 'pids'),
    cpus: fields['cpus'] === null ? null : numberOf(fields, 'cpus'),
    fileBytes: wholeOf(fields, 'fileBytes'),
    together: wholeOf(fields, 'together'),
  };
}

function decodeUser(fields: Fields): UserIds {
  return { uid: userNumberOf(fields, 'uid'), gid: userNumberOf(fields, 'gid') };
}

function decodePlaces(fields: Fields): ProgramPlaces {
  const folders = (name: string): string[] =>
    listOf(fields, name).map((folder) => absolute(folder, name));
  return {
    hidden: folders('hidden'),
    blocked: folders('blocked'),
    reads: folders('reads'),
    fixed: folders('fixed'),
  };
}

function decodeExtend(fields: Fields): ExtendRequest {
  return {
    backendId: idOf(fields, 'backendId'),
    leaseId: stringOf(fields, 'leaseId'),
    softAtMs: numberOf(fields, 'softAtMs'),
    hardAtMs: numberOf(fields, 'hardAtMs'),
  };
}

function decodeStop(fields: Fields): StopRequest {
  const mode = fields['mode'];
  if (mode !== 'soft' && mode !== 'hard') throw new ProtocolError('mode must be soft or hard');
  return {
    backendId: idOf(fields, 'backendId'),
    mode,
    reason: stringOf(fields, 'reason'),
    isKeyLost: fields['isKeyLost'] === true,
  };
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch (cause) {
    throw new ProtocolError('not JSON', { cause });
  }
}

function fieldsOf(value: unknown, name: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ProtocolError(`${name} must be an object`);
  }
  return value as Fields;
}

function listOf(fields: Fields, name: string): readonly unknown[] {
  const value = fields[name];
  if (!Array.isArray(value)) throw new ProtocolError(`${name} must be a list`);
  return value as readonly unknown[];
}

function numberOf(fields: Fields, name: string): number {
  const value = fields[name];
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    throw new ProtocolError(`${name} must be a number`);
  }
  return value;
}

function stringOf(fields: Fields, name: string): string {
  return text(fields[name], name);
}

function text(value: unknown, name: string): string {
  if (typeof value !== 'string' || value.includes('\0')) {
    throw new ProtocolError(`${name} must be a string without NUL`);
  }
  return value;
}

/** They become part of a shell's command line. */
function wholeOf(fields: Fields, name: string): number {
  const value = numberOf(fields, name);
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new ProtocolError(`${name} must be a whole number from 1`);
  }
  return value;
}

/** Never root, and a number that the system's tools accept as a user. */
function userNumberOf(fields: Fields, name: string): number {
  const value = numberOf(fields, name);
  if (!Number.isInteger(value) || value < 1 || value > USER_NUMBER_MAX) {
    throw new ProtocolError(`${name} must be a whole number from 1 to ${String(USER_NUMBER_MAX)}`);
  }
  return value;
}

function absolute(value: unknown, name: string): string {
  const folder = text(value, name);
  if (!folder.startsWith('/')) throw new ProtocolError(`${name} must hold absolute paths`);
  return folder;
}

/** Ids become names of files and folders, so their form is part of the protocol. */
function idOf(fields: Fields, name: string): string {
  return matching(fields, name, {
    form: /^[a-z0-9-]{1,64}$/u,
    rule: '1 to 64 of a-z, 0-9 and "-"',
  });
}

function matching(fields: Fields, name: string, of: { form: RegExp; rule: string }): string {
  const value = stringOf(fields, name);
  if (!of.form.test(value)) throw new ProtocolError(`${name} must be ${of.rule}`);
  return value;
}
