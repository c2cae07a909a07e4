/** What a `connect` waits for, told to somebody who would otherwise see nothing for minutes. */
import { setTimeout as delay } from 'node:timers/promises';
import type { ControllerApi } from '@leasehold/client';
import { isStopping } from '@leasehold/keys-core';
import type { KeyFailuresView, KeyView } from '@leasehold/keys-core/keys';
import { placeOption } from '../options.ts';
import { printable } from '../output/text.ts';

/** What is read of a key whose backend starts or stops. */
export interface StartingKey extends Pick<
  KeyView,
  | 'name'
  | 'namespace'
  | 'backendId'
  | 'backendStatus'
  | 'droneId'
  | 'expiresAt'
  | 'asOf'
  | 'datacenter'
> {
  readonly failing: Pick<KeyFailuresView, 'failures' | 'startAt'> | null;
}

/** What is faster needs no words. */
const SILENT_MS = 5_000;
const LOOK_EVERY_MS = 1_000;

/**
 * Waits for an answer, and prints what it waits for: at first after some seconds, and again when that has changed.
 * @param look what it waits for now; undefined when that is not known.
 */
export async function tellingWhile<Answer>(
  answer: Promise<Answer>,
  look: () => Promise<string | undefined>,
  {
    print,
    silentMs = SILENT_MS,
    everyMs = LOOK_EVERY_MS,
  }: {
    readonly print: (text: string) => void;
    readonly silentMs?: number;
    readonly everyMs?: number;
  },
): Promise<Answer> {
  const over = new AbortController();
  const { signal } = over;
  const isOver = (): boolean => signal.aborted;
  const tell = async (): Promise<void> => {
    let told: string | undefined;
    await delay(silentMs, undefined, { signal });
    while (!isOver()) {
      // The answer itself says what is wrong.
      const text = await look().catch(() => undefined);
      if (text !== undefined && text !== told && !isOver()) {
        print(`waiting: ${text}\n`);
        told = text;
      }
      await delay(everyMs, undefined, { signal });
    }
  };
  tell().catch(() => undefined);
  try {
    return await answer;
  } finally {
    over.abort();
  }
}

/** What a connect to this key waits for. */
export async function lookAtStart(
  client: Pick<ControllerApi, 'keys' | 'backends'>,
  named: { readonly name: string | undefined; readonly namespace: string },
  program: string | undefined,
): Promise<string | undefined> {
  const { name, namespace } = named;
  if (name === undefined) {
    // Its name is not known before the answer.
    const shown = printable(program ?? '');
    return `${shown} does not answer yet; \`leasehold backends ls --live --program ${shown}\` shows what runs`;
  }
  const key = await client.keys.get.query({ name, namespace });
  return key === null ? undefined : startText(client, key);
}

/** Why a key has no backend that is ready; undefined when it has, and when nothing starts or stops. */
export async function startText(
  client: Pick<ControllerApi, 'backends'>,
  key: StartingKey,
): Promise<string | undefined> {
  const { backendId, backendStatus: status, droneId } = key;
  const name = printable(key.name);
  if (backendId === null || status === null || status === 'ready') return undefined;
  if (status === 'terminated') return delayText(key);
  const backend = `backend ${backendId}`;
  if (isStopping(status)) {
    return `${backend} is stopping; ${name} is free when it has ended, by ${key.expiresAt} at the latest`;
  }
  if (status === 'scheduled') {
    return `${backend} is scheduled: the drone ${printable(droneId ?? '')} has not begun to start it yet`;
  }
  if (status !== 'waiting') return `${backend} is ${status}`;
  const port = await portOf(client, key, backendId).catch(() => undefined);
  const where =
    port === undefined ? 'it does not answer yet' : `nothing answers on its ${port} yet`;
  return `${backend} runs, ${where}; \`leasehold backends logs ${backendId}${placeOption(key.datacenter)}\` shows its output`;
}

/** When a key may be started whose last backends have failed; undefined when that may be now. */
function delayText({ name, failing, asOf }: StartingKey): string | undefined {
  if (failing === null || Date.parse(failing.startAt) <= Date.parse(asOf)) return undefined;
  const { failures, startAt } = failing;
  return `the last ${String(failures)} backends of ${printable(name)} have failed; the next may start at ${startAt}`;
}

/** `port 21107`, as its drone has said; undefined for a drone that does not. */
async function portOf(
  client: Pick<ControllerApi, 'backends'>,
  { datacenter }: StartingKey,
  backendId: string,
): Promise<string | undefined> {
  const { states } = await client.backends.get.query({ backendId, datacenter });
  const said = states.find(({ status }) => status === 'waiting')?.detail ?? '';
  return /^port \d+$/u.test(said) ? said : undefined;
}
