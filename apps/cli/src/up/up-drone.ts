/**
 * The drone of `leasehold up`: what it offers, and its config file. That file is made from the options, from
 * `leasehold.config.json` and from what earlier options gave, which is kept in the home. A file that a
 * person has edited is used as it is.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import net from 'node:net';
import { dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import {
  type DroneFile,
  droneStateDir,
  parseDroneFile,
  readDroneFile,
} from '@leasehold/api/drone-file';
import type { DroneBindings } from '@leasehold/keys-core/access';
import { jsonOf, type ParsedEnvironment } from '@leasehold/service-kit';
import { refusal, usageFailure } from '../failures.ts';
import { jsonText, writePrivateJson } from '../home.ts';
import { printable } from '../output/text.ts';
import { identityOf, isErrorCode, type ProcessIdentity } from '../processes.ts';
import { commandText, type LocalProgram, scriptsOf } from './local-program.ts';
import {
  invalid,
  ProgramFinder,
  type ProgramsByName,
  type UpRequest,
  type Watched,
} from './up-request.ts';

const DRONE_ID = 'drone-1';
const CAPACITY = 100;
const EXAMPLE = 'room';
const OF_EXAMPLE = 'the example of Leasehold';
const FILE_NAME = 'drone.json';

/** A program that the drone offers. */
interface OfferedProgram {
  readonly name: string;
  /** As a person would type it. */
  readonly command: string;
  /** The folder it runs in; null where that is the folder of its data, or in an image. */
  readonly cwd: string | null;
  /** Where it comes from, for people. */
  readonly source: string;
  /** Whether it is the example of Leasehold, which nobody develops here. */
  readonly isExample: boolean;
  /** Whether processes of it run before a key is known. */
  readonly isWarm: boolean;
  /** The files of its own, a change of which changes what it does. */
  readonly scripts: readonly string[];
}

/** A program whose backends are stopped when one of its files changes; without files it cannot be watched. */
export interface WatchTarget {
  readonly name: string;
  readonly command: string;
  readonly paths: readonly string[];
}

export interface UpDrone {
  readonly droneId: string;
  readonly configPath: string;
  readonly stateDir: string;
  /** What its token is bound to. */
  readonly bindings: DroneBindings;
  readonly programs: readonly OfferedProgram[];
  /** The longest grace of its programs, in milliseconds. */
  readonly stopGraceMs: number;
  readonly targets: readonly WatchTarget[];
  /** What people should know about its config file. */
  readonly note: string | undefined;
  /** Writes what is to be kept, and its config file. */
  readonly write: () => void;
}

interface UpDronePlace {
  readonly home: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The file of the example that each home offers. */
  readonly roomServerPath: string;
}

/** `up.json` in the home. */
const keptSchema = z.object({
  /** What `--program` gave, in the form of the drone's file. */
  programs: z.record(z.string(), z.record(z.string(), z.unknown())).default({}),
  /** The drone's file as it was written last: of this text, or, after a crash, of the one before. */
  written: z.array(z.string()).default([]),
  /** The programs in it. */
  offered: z.record(z.string(), z.record(z.string(), z.unknown())).default({}),
});
type Kept = z.infer<typeof keptSchema>;

/**
 * Finds out what the drone offers, and checks all of it. Writes nothing.
 * @throws {CliFailure} with everything that is wrong.
 */
export function prepareDrone(request: UpRequest, place: UpDronePlace): UpDrone {
  const drone = requestedDrone(request, place);
  if (request.watch === null) return drone;
  const targets = watchTargets(drone.programs, request.watch);
  checkTargets(targets);
  const warm = drone.programs.filter(({ isWarm }) => isWarm).map(({ name }) => name);
  const stale = targets.find(({ name, paths }) => paths.length > 0 && warm.includes(name));
  if (stale !== undefined) {
    throw usageFailure(
      `${stale.name} is watched and has \`warm\`: after a change, a connect would get a process of the version before.`,
      'Leave out one of the two.',
    );
  }
  return { ...drone, targets };
}

/** The programs that are to be watched, without the example. */
function watchTargets(
  programs: readonly OfferedProgram[],
  { paths, ofPrograms, scripts }: Watched,
): WatchTarget[] {
  return programs.flatMap(({ name, command, isExample, scripts: own }) => {
    const named = paths.length > 0 ? paths : ofPrograms[name];
    const watched = named ?? (scripts ? own : undefined);
    return isExample || watched === undefined ? [] : [{ name, command, paths: watched }];
  });
}

function checkTargets(targets: readonly WatchTarget[]): void {
  if (targets.length === 0) {
    throw usageFailure(
      '--watch: there is no program to watch.',
      'Give one with --program, or in leasehold.config.json.',
    );
  }
  if (targets.some(({ paths }) => paths.length > 0)) return;
  const commands = targets.map(({ name, command }) => `${name} (${command})`).join(', ');
  throw usageFailure(
    `--watch: no word of ${commands} is a script.`,
    'Name files or folders to watch with --watch-path.',
  );
}

function requestedDrone(request: UpRequest, place: UpDronePlace): UpDrone {
  if (request.droneConfig !== null) {
    return droneOf(request.droneConfig, place, `from ${request.droneConfig}`);
  }
  const kept = readKept(place.home);
  const keptPrograms = keptOf(kept, request);
  const { ofFile, given } = request;
  checkKept(keptPrograms, [ofFile.programs, given]);
  const names = Object.keys({ ...given, ...ofFile.programs, ...keptPrograms });
  const merged = { ...keptPrograms, ...ofFile.programs, ...given };
  // What was asked for last comes first.
  const own = Object.fromEntries(names.map((name) => [name, merged[name] ?? {}]));
  const configPath = join(place.home, FILE_NAME);
  const content = contentOf(own, place);
  const found = readText(configPath);
  const wanted = jsonText(content);
  const record = { programs: { ...keptPrograms, ...given }, offered: own };
  if (found !== undefined && found !== wanted && !kept.written.includes(hashOf(found))) {
    return editedDrone(place, { kept, record });
  }
  const { environment } = place;
  const read = parseDroneFile(content, { file: configPath, environment });
  const file = valid(read, configPath, 'The configuration of the drone');
  const sources: Record<string, string> = {
    [EXAMPLE]: OF_EXAMPLE,
    ...textOfEach(
      keptPrograms,
      (name) => `kept from an earlier --program; --forget-program ${name} ends that`,
    ),
    ...textOfEach(ofFile.programs, () => `from ${ofFile.name}`),
    ...textOfEach(given, () => 'from --program'),
  };
  return {
    ...factsOf(file, { configPath, home: place.home, sourceOf: (name) => sources[name] ?? '' }),
    note: undefined,
    write() {
      mkdirSync(content.stateDir, { recursive: true, mode: 0o700 });
      // In this order: after a crash between the two, the file is known to be one of ours.
      const written = [hashOf(wanted), ...(found === undefined ? [] : [hashOf(found)])];
      writePrivateJson(keptPath(place.home), { ...record, written });
      writePrivateJson(configPath, content);
    },
  };
}

/** The drone of a file that a person has written. */
function droneOf(configPath: string, place: UpDronePlace, source: string): UpDrone {
  const { environment, home } = place;
  const file = valid(readDroneFile({ file: configPath, environment }), configPath);
  if (file.controllerUrls !== undefined) {
    throw invalid(configPath, [
      'controllerUrls: must be left out, because `leasehold up` starts the controller',
    ]);
  }
  const finder = new ProgramFinder();
  const commands = Object.entries(file.programs).flatMap(([name, program]) =>
    program.kind === 'command' ? [[name, program] as const] : [],
  );
  finder.find(
    Object.fromEntries(commands),
    { folder: dirname(configPath), searchPath: environment['PATH'] ?? '' },
    (name, field) => `${configPath}: programs.${name}.${field}`,
  );
  finder.done();
  return {
    ...factsOf(file, { configPath, home, sourceOf: () => source }),
    note: undefined,
    write: () => undefined,
  };
}

/** @throws {CliFailure} `up.cannot_start` when it would have to be changed too. */
function editedDrone(
  place: UpDronePlace,
  { kept, record }: { kept: Kept; record: { programs: ProgramsByName; offered: ProgramsByName } },
): UpDrone {
  const configPath = join(place.home, FILE_NAME);
  if (!isDeepStrictEqual(comparable(record.offered), comparable(kept.offered))) {
    throw refusal(
      'up.cannot_start',
      `Nothing was started: ${configPath} was edited, and the programs that are given would change it too.`,
      `Put the edit into leasehold.config.json and remove ${configPath}; or move it elsewhere, and use it as it is with --drone-config FILE.`,
    );
  }
  return {
    ...droneOf(configPath, place, `from ${configPath}`),
    note: `${configPath} was edited: it is used as it is. Remove it to have it made again.`,
  };
}

function factsOf(
  file: DroneFile,
  of: { configPath: string; home: string; sourceOf: (name: string) => string },
): Omit<UpDrone, 'note' | 'write'> {
  const { configPath, home, sourceOf } = of;
  const names = Object.keys(file.programs);
  return {
    droneId: file.droneId,
    configPath,
    stateDir: droneStateDir(file, home),
    bindings: {
      // A token without a list is bound to no program.
      programs: names.length === 0 ? null : names,
      capacity: file.capacity,
      addresses: addressesOf(file.host),
    },
    stopGraceMs: Math.max(0, ...Object.values(file.programs).map((program) => program.stopGraceMs)),
    targets: [],
    programs: Object.entries(file.programs).map(([name, program]) => ({
      name,
      ...(program.kind === 'container'
        ? { command: `container ${program.image}`, cwd: null, scripts: [] }
        : {
            command: commandText(program),
            cwd: program.cwd ?? null,
            scripts: scriptsOf(program),
          }),
      source: sourceOf(name),
      isExample: sourceOf(name) === OF_EXAMPLE,
      isWarm: program.kind === 'command' && program.warm > 0,
    })),
  };
}

/** Addresses of this machine alone, unless the file names another one; null for a name. */
function addressesOf(host: string): string[] | null {
  if (net.isIP(host) === 0) return null;
  if (host.startsWith('127.')) return ['127.0.0.0/8'];
  return [`${host}/${net.isIPv4(host) ? '32' : '128'}`];
}

function contentOf(own: ProgramsByName, { home, roomServerPath }: UpDronePlace) {
  return {
    droneId: DRONE_ID,
    stateDir: join(home, 'drone'),
    capacity: CAPACITY,
    programs: {
      ...own,
      [EXAMPLE]: own[EXAMPLE] ?? {
        command: process.execPath,
        args: [roomServerPath],
        // In the program's own folder of data, which is where it starts.
        env: { ROOM_STORE: 'rooms' },
        port: 'auto',
        readiness: { type: 'tcp' },
      },
    },
  };
}

/** What is kept, without what is to be forgotten. @throws {CliFailure} `cli.usage` for a name that is not there. */
function keptOf({ programs }: Kept, { forget, ofFile }: UpRequest): ProgramsByName {
  for (const name of forget) {
    if (Object.hasOwn(programs, name)) continue;
    if (Object.hasOwn(ofFile.programs, name)) {
      throw usageFailure(`--forget-program ${name}: it is in ${ofFile.name}. Remove it there.`);
    }
    const names = Object.keys(programs).sort().join(', ');
    throw usageFailure(
      `--forget-program ${name}: no such program is kept; ${names === '' ? 'none is' : `kept: ${names}`}.`,
    );
  }
  return Object.fromEntries(Object.entries(programs).filter(([name]) => !forget.includes(name)));
}

/** A kept program whose files are gone keeps everything from starting, unless another has its name. */
function checkKept(kept: ProgramsByName, others: readonly ProgramsByName[]): void {
  const used = Object.entries(kept).filter(
    ([name]) => !others.some((programs) => Object.hasOwn(programs, name)),
  );
  const finder = new ProgramFinder();
  finder.find(
    Object.fromEntries(used) as Record<string, LocalProgram>,
    { folder: '/', searchPath: '' },
    (name) => `${name}, kept from an earlier --program`,
  );
  finder.done('Give it again with --program, or leave it out with --forget-program NAME.');
}

function keptPath(home: string): string {
  return join(home, 'up.json');
}

function readKept(home: string): Kept {
  const path = keptPath(home);
  const text = readText(path);
  if (text === undefined) return keptSchema.parse({});
  const parsed = z.preprocess((value) => jsonOf(String(value)), keptSchema).safeParse(text);
  if (parsed.success) return parsed.data;
  throw refusal(
    'home.unreadable',
    `${path} is not valid.`,
    'Remove it, and give each --program again.',
  );
}

/** The PATH of the shell is not what a person has asked for. */
function comparable(programs: ProgramsByName): unknown {
  const withoutPath = Object.entries(programs).map(([name, program]) => {
    const env = { ...(program['env'] as object | undefined), PATH: undefined };
    return [name, { ...program, env }];
  });
  return JSON.parse(JSON.stringify(Object.fromEntries(withoutPath)));
}

function textOfEach(
  programs: ProgramsByName,
  text: (name: string) => string,
): Record<string, string> {
  return Object.fromEntries(Object.keys(programs).map((name) => [name, text(name)]));
}

function valid(read: ParsedEnvironment<DroneFile>, file: string, what = file): DroneFile {
  if (read.outcome === 'valid') return read.values;
  throw invalid(
    what,
    read.problems.map((problem) => problem.replace(`${file}: `, '')),
  );
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isErrorCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** What a drone offers: a line for each program. */
export function programsText({ programs }: UpDrone): string {
  const width = Math.max(...programs.map(({ name }) => name.length));
  return programs
    .map(({ name, command, cwd, source, isExample }) => {
      const place = cwd === null || cwd === process.cwd() ? '' : ` in ${printable(cwd)}`;
      const what = isExample ? '' : `${printable(command)}${place}, `;
      return `\n      ${name.padEnd(width)}  ${what}${printable(source)}`;
    })
    .join('');
}

/** The warden's process id, by its own record in the drone's state; null when none exists. */
export function wardenPidOf({ stateDir }: Pick<UpDrone, 'stateDir'>): number | null {
  try {
    const record = JSON.parse(readFileSync(join(stateDir, 'warden.json'), 'utf8')) as {
      pid?: unknown;
    };
    return typeof record.pid === 'number' ? record.pid : null;
  } catch {
    return null;
  }
}

/** The warden that runs; the number in its record may be that of another process by now. */
export function runningWardenOf(drone: Pick<UpDrone, 'stateDir'>): ProcessIdentity | undefined {
  const pid = wardenPidOf(drone);
  // Read first: what is looked at after that is this very process, or it is gone.
  const identity = pid === null ? undefined : identityOf(pid);
  return identity !== undefined && isWarden(identity.pid, drone.stateDir) ? identity : undefined;
}

/** As the drone itself tells its warden. Where there is no `/proc`, the number has to do. */
function isWarden(pid: number, stateDir: string): boolean {
  if (process.platform !== 'linux') return true;
  try {
    const words = readFileSync(`/proc/${String(pid)}/cmdline`, 'utf8').split('\0');
    return words[words.indexOf('warden') + 1] === stateDir;
  } catch {
    return false;
  }
}
