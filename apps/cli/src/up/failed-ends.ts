import { createControllerClient, type ControllerApi } from '@leasehold/client';
import { type EventView, follow } from '../controller-api.ts';
import { printable } from '../output/text.ts';
import { scopeText } from '../scope.ts';
import { messageOf, type Progress } from './progress.ts';

/** So many ends are told in this time; the others are counted. */
const TOLD_MAX = 5;
const TOLD_MS = 10_000;
/** Of the key, to find the one that has ended among those that were started since. */
const BACKENDS_MAX = 10;

/**
 * Says each end of a backend that was a failure of its program: the terminal of `leasehold up` is where its
 * developer looks.
 */
export function tellFailedEnds({
  access,
  progress,
  nowMs,
}: {
  readonly access: { readonly url: string; readonly token: string };
  readonly progress: Progress;
  readonly nowMs: () => number;
}): { close(): void } {
  const calls = createControllerClient({ ...access, transport: 'http' });
  const stream = createControllerClient({ ...access, transport: 'ws' });
  const tell = createEndTeller(calls.api, progress, nowMs);
  const closing = new AbortController();
  const { signal } = closing;
  /** One end after the other. */
  let queue = Promise.resolve();
  let afterId: string | undefined;
  const tellAll = async (): Promise<void> => {
    const { api } = stream;
    while (!signal.aborted) {
      await follow<{ id: string; data: EventView }>(
        signal,
        (listener) =>
          api.events.watch.subscribe({ face: 'key', kinds: ['failed'], afterId }, listener),
        ({ id, data }) => {
          afterId = id;
          queue = queue.then(() => tell(data));
        },
      );
    }
  };
  tellAll().catch((error: unknown) => {
    if (signal.aborted) return;
    progress.warn(`ends of backends are no longer told here: ${messageOf(error)}`);
  });
  return {
    close() {
      closing.abort();
      void stream.close();
      void calls.close();
    },
  };
}

/** @param nowMs of a monotonic clock. @returns a function that tells of one end; it never rejects. */
export function createEndTeller(
  api: Pick<ControllerApi, 'backends'>,
  progress: Pick<Progress, 'warn'>,
  nowMs: () => number,
): (end: Pick<EventView, 'namespace' | 'name' | 'leaseId' | 'reason'>) => Promise<void> {
  let toldAtMs: readonly number[] = [];
  let untold = 0;
  return async (end) => {
    const now = nowMs();
    toldAtMs = toldAtMs.filter((at) => now - at < TOLD_MS);
    if (toldAtMs.length >= TOLD_MAX) {
      untold += 1;
      return;
    }
    toldAtMs = [...toldAtMs, now];
    const before = untold === 0 ? '' : ` (before it failed: ${String(untold)})`;
    untold = 0;
    const more = await ofBackend(api, end).catch(() => ({ program: '', lastLine: '' }));
    const how = end.reason === null ? 'it failed' : printable(end.reason);
    progress.warn(`key ${scopeText(end)}${more.program}: ${how}${before}${more.lastLine}`);
  };
}

async function ofBackend(
  api: Pick<ControllerApi, 'backends'>,
  { namespace, name, leaseId }: Pick<EventView, 'namespace' | 'name' | 'leaseId'>,
): Promise<{ readonly program: string; readonly lastLine: string }> {
  const within = namespace === '' ? undefined : namespace;
  const asked = { name, namespace: within, limit: BACKENDS_MAX };
  const { items } = await api.backends.list.query(asked);
  const ended = items.find((one) => one.leaseId === leaseId);
  if (ended === undefined) return { program: '', lastLine: '' };
  const { output } = await api.backends.get.query({ backendId: ended.backendId });
  const last = tellingLineOf(output ?? '');
  const logs = `\n    \`npx leasehold backends logs ${printable(ended.backendId)}\` shows all`;
  return {
    program: `, program ${printable(ended.program)}`,
    lastLine: last === '' ? '' : `\n    ${printable(last)}${logs}`,
  };
}

/** Node writes its version after an error that nobody caught. */
const NODE_VERSION = /^Node\.js v\d/u;
const ERROR = /^(?:Uncaught )?[\w.$]*(?:Error|Exception)\b/u;

/** The line that says most of why a program has ended: its last one, or before the version of Node the error. */
function tellingLineOf(output: string): string {
  const lines = output.trimEnd().split('\n');
  const last = lines.at(-1) ?? '';
  if (!NODE_VERSION.test(last)) return last;
  return lines.findLast((line) => ERROR.test(line)) ?? last;
}
