/**
 * The login for a registry, from a file or a variable of the drone: `user:password`, or the file that
 * `docker login` and `podman login` write. Read at each pull, so that it may be renewed. It is in no
 * log, error or event.
 */
import { readFileSync } from 'node:fs';
import type { ContainerConfig } from '../../config.ts';
import type { RegistryLogin } from '../../engine/engine.ts';
import { StartFailed } from '../warden-link/warden-link.ts';

const HUB = 'docker.io';
/** As the file of logins names Docker's own registry. */
const HUB_IN_FILE = 'https://index.docker.io/v1/';

type Environment = Readonly<Record<string, string | undefined>>;

/** @throws {StartFailed} naming where the login was looked for. */
export function registryLogin(
  { credentials, image }: Pick<ContainerConfig, 'credentials' | 'image'>,
  environment: Environment,
): RegistryLogin | undefined {
  if (credentials === undefined) return undefined;
  const place = 'file' in credentials ? credentials.file : `the variable ${credentials.env}`;
  const text = ('file' in credentials ? readOf(place) : environment[credentials.env])?.trim();
  if (text === undefined || text === '') {
    throw new StartFailed(`the credentials for ${image} cannot be read from ${place}`);
  }
  const login = text.startsWith('{') ? loginIn(text, registryOf(image)) : pairOf(text);
  if (login === undefined) {
    throw new StartFailed(
      `${place} has no credentials for ${registryOf(image)}: it must contain user:password, or the file that docker login writes`,
    );
  }
  return login;
}

/** The registry in the name of an image. */
export function registryOf(image: string): string {
  const [first = '', ...rest] = image.split('/');
  const isRegistry = rest.length > 0 && (/[.:]/u.test(first) || first === 'localhost');
  return isRegistry ? first : HUB;
}

function loginIn(text: string, registry: string): RegistryLogin | undefined {
  const logins = fieldsOf(fieldsOf(jsonOf(text))?.['auths']);
  const login = fieldsOf(
    logins?.[registry] ?? (registry === HUB ? logins?.[HUB_IN_FILE] : undefined),
  );
  const { auth, identitytoken } = login ?? {};
  if (typeof identitytoken === 'string') return { identitytoken };
  return typeof auth === 'string'
    ? pairOf(Buffer.from(auth, 'base64').toString('utf8'))
    : undefined;
}

function pairOf(text: string): RegistryLogin | undefined {
  const at = text.indexOf(':');
  return at < 1 ? undefined : { username: text.slice(0, at), password: text.slice(at + 1) };
}

function readOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === 'object' && value !== null ? { ...value } : undefined;
}
