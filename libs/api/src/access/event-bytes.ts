/** How much of the history a call writes: events are kept for weeks. */
import type { CallerUse } from '../context.ts';

/** An event without its texts, with its places in the indexes. */
const EVENT_BYTES = 250;
/** One that begins a grant, and one that ends it. */
const EVENTS_OF_A_GRANT = 2;

/** What the events of a grant say. */
export interface GrantTexts {
  readonly namespace: string;
  readonly name: string;
  /** Who holds it, and why: in the first event only. */
  readonly holder?: string | null | undefined;
  readonly action?: string | undefined;
  readonly comment?: string | null | undefined;
}

export function bytesOfGrant({ namespace, name, ...said }: GrantTexts): number {
  const each = EVENT_BYTES + bytesOf(namespace, name);
  return EVENTS_OF_A_GRANT * each + bytesOf(said.holder, said.action, said.comment);
}

/** Of an event about a grant, such as an operator's act, with its texts. */
export function bytesOfEvent(...texts: readonly (string | null | undefined)[]): number {
  return EVENT_BYTES + bytesOf(...texts);
}

/** Of texts that are added to an event which is counted already. */
export function bytesOf(...texts: readonly (string | null | undefined)[]): number {
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text ?? ''), 0);
}

/**
 * Runs a call that may grant something, if its caller may write so much more in this hour. What was not granted
 * is not counted.
 * @throws {LeaseError} `request.rate_limited`; what `run` throws.
 */
export async function writing<Answer>(
  use: Pick<CallerUse, 'startWriting'> | undefined,
  bytes: number,
  run: () => Promise<Answer>,
  isGranted: (answer: Answer) => boolean,
): Promise<Answer> {
  const takeBack = use?.startWriting(bytes);
  let isWritten = false;
  try {
    const answer = await run();
    isWritten = isGranted(answer);
    return answer;
  } finally {
    if (!isWritten) takeBack?.();
  }
}
