import type { LogPage } from '@leasehold/keys-core';
import { useDocumentVisibility } from '@mantine/hooks';
import { useEffect, useRef, useState } from 'react';
import { ApiError, isSignedOut, toApiError } from '~/lib/api/api-error.ts';
import { api } from '~/lib/api/api.ts';
import { at } from '~/lib/here.ts';
import { signedOut } from '~/lib/session.tsx';
import { type Log, NO_LOG, withPages } from './log-lines.ts';

/** After a failure it is read again by itself. */
const RETRY_MS = 5_000;

interface LogSource {
  readonly backendId: string;
  /** If empty, this controller's. */
  readonly datacenter: string;
  /** How many of the last lines are read first. */
  readonly tail: number;
}

interface LogRead {
  readonly log: Log;
  /** Why nothing can be read at this moment; null when it can. */
  readonly failure: ApiError | null;
  readonly retry: () => void;
}

/**
 * A backend's output, first its last lines and then each line as it is written. While it is paused and while nobody
 * looks at the tab there is no stream; then it goes on where it ended.
 */
export function useLog({ backendId, datacenter, tail }: LogSource, isPaused: boolean): LogRead {
  const [log, setLog] = useState(NO_LOG);
  const [failure, setFailure] = useState<ApiError | null>(null);
  const [attempt, setAttempt] = useState(0);
  const position = useRef<number>(undefined);
  const isSeen = useDocumentVisibility() !== 'hidden';
  const isOpen = isSeen && !isPaused && !log.hasEnded;
  useEffect(() => {
    if (!isOpen) return undefined;
    const source = { backendId, ...at(datacenter) };
    const ending = new AbortController();
    let stream: { unsubscribe(): void } | undefined;
    let [retrying, drawing] = [0, 0];
    let pages: LogPage[] = [];

    // Many pages may come at once: they are drawn together.
    const draw = (): void => {
      const drawn = pages;
      [pages, drawing] = [[], 0];
      setLog((before) => withPages(before, drawn, tail));
    };
    const add = (page: LogPage): void => {
      position.current = page.position;
      pages.push(page);
      if (drawing === 0) drawing = requestAnimationFrame(draw);
    };
    const fail = (error: unknown): void => {
      const reason = toApiError(error);
      if (ending.signal.aborted || !(reason instanceof ApiError)) return;
      stream?.unsubscribe();
      if (isSignedOut(reason)) signedOut.raise();
      setFailure(reason);
      retrying = window.setTimeout(() => setAttempt((nth) => nth + 1), RETRY_MS);
    };
    // What is there is read by calls, which tell why they fail; a stream of the browser does not.
    const read = async (): Promise<void> => {
      let page: LogPage;
      do {
        const from = position.current;
        const wanted = from === undefined ? { ...source, tail } : { ...source, from };
        page = (await api.query('backends.logs', wanted, { signal: ending.signal })) as LogPage;
        if (ending.signal.aborted) return;
        setFailure(null);
        add(page);
      } while (page.hasMore);
      if (page.hasEnded) return;
      stream = api.subscription(
        'backends.followLogs',
        { ...source, from: page.position },
        {
          onData: (message) => add((message as { data: LogPage }).data),
          onConnectionStateChange: ({ error }) => {
            if (error !== null) fail(error);
          },
          onError: fail,
        },
      );
    };
    read().catch(fail);
    return () => {
      ending.abort();
      stream?.unsubscribe();
      clearTimeout(retrying);
      if (drawing !== 0) {
        cancelAnimationFrame(drawing);
        draw();
      }
    };
  }, [attempt, backendId, datacenter, isOpen, tail]);
  return { log, failure, retry: () => setAttempt((nth) => nth + 1) };
}
