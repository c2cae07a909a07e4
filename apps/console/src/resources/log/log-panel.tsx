import { ActionIcon, Button, Checkbox, TextInput } from '@mantine/core';
import { useDocumentVisibility, useLocalStorage } from '@mantine/hooks';
import {
  IconArrowDown,
  IconChevronDown,
  IconChevronUp,
  IconPlayerPause,
  IconPlayerPlay,
  IconSearch,
} from '@tabler/icons-react';
import {
  type KeyboardEvent,
  memo,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import type { LogPage } from '@leasehold/keys-core';
import { api, ApiError, isSignedOut, toApiError } from '~/lib/api/api.ts';
import { absolute, clockMs, count, countText } from '~/lib/format.ts';
import { pause } from '~/lib/live/live-state.ts';
import { at } from '~/lib/routes.ts';
import { signedOut } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { Panel } from '~/ui/page.tsx';
import { Notice } from '~/ui/states.tsx';
import { VisibleText } from '~/ui/text.tsx';
import {
  LINES_MAX,
  type Log,
  matchesIn,
  NO_LOG,
  partsOf,
  type ShownLine,
  withPages,
} from './log-lines.ts';
import classes from './log-panel.module.css';

/** How many of the last lines are shown at first. */
const TAIL = 1_000;
/** So near to its end a log counts as followed. */
const END_PX = 24;

interface OfBackend {
  readonly backendId: string;
  /** The backend's datacenter; if empty, this controller's. */
  readonly datacenter: string;
}

/** What a backend writes, as it writes it, and what it wrote, while its drone keeps it. */
export function LogPanel(of: OfBackend) {
  const [tail, setTail] = useState(TAIL);
  const showMore = tail === TAIL ? () => setTail(LINES_MAX) : undefined;
  return <LogOfBackend key={`${of.backendId} ${String(tail)}`} {...of} {...{ tail, showMore }} />;
}

interface Choices {
  readonly isTimed: boolean;
  readonly isWrapped: boolean;
}

function LogOfBackend({
  tail,
  showMore,
  ...of
}: OfBackend & { readonly tail: number; readonly showMore: (() => void) | undefined }) {
  const [isHalted, setHalted] = useState(false);
  const isPagePaused = useSignal(pause.isPausedByHand);
  const { log, failure, retry } = useLog({ ...of, tail }, isHalted || isPagePaused);
  const [choices, setChoices] = useLocalStorage<Choices>({
    key: 'leasehold.log',
    defaultValue: { isTimed: true, isWrapped: true },
    getInitialValueInEffect: false,
  });
  const [search, setSearch] = useState('');
  const matches = useMemo(() => matchesIn(log.lines, search), [log.lines, search]);
  const [chosenId, setChosenId] = useState<number>();
  const nth = matches.findIndex(({ id }) => id === chosenId);
  const go = (step: 1 | -1): void => {
    // From the newest match backwards, as a log is read.
    const next = nth < 0 ? (step === 1 ? 0 : matches.length - 1) : nth + step;
    setChosenId(matches.at(next % matches.length)?.id);
  };
  const isPaused = isHalted || isPagePaused;
  return (
    <Panel
      title="Log"
      meta={<span className="small-print">{stateText(log, isPaused, failure !== null)}</span>}
    >
      <div className={classes['tools']}>
        <LogSearch
          search={search}
          found={foundText(search, matches.length, nth)}
          isEmpty={matches.length === 0}
          onChange={setSearch}
          onGo={go}
        />
        <Checkbox
          size="xs"
          label="Times"
          checked={choices.isTimed}
          onChange={({ currentTarget }) =>
            setChoices({ ...choices, isTimed: currentTarget.checked })
          }
        />
        <Checkbox
          size="xs"
          label="Wrap"
          checked={choices.isWrapped}
          onChange={({ currentTarget }) =>
            setChoices({ ...choices, isWrapped: currentTarget.checked })
          }
        />
        {log.hasEnded ? null : (
          <Button
            variant="default"
            disabled={isPagePaused}
            leftSection={
              isHalted ? (
                <IconPlayerPlay size={14} aria-hidden />
              ) : (
                <IconPlayerPause size={14} aria-hidden />
              )
            }
            onClick={() => setHalted(!isHalted)}
          >
            {isHalted ? 'Resume the log' : 'Pause the log'}
          </Button>
        )}
      </div>
      {failure === null ? null : (
        <Notice
          tone="bad"
          action={
            <Button variant="default" size="compact-xs" onClick={retry}>
              Try again
            </Button>
          }
        >
          {failure.message} <span className="mono">({failure.code})</span>
        </Notice>
      )}
      <Lines
        label={`Log of ${of.backendId}`}
        {...{ log, search, chosenId, choices, showMore }}
        isRead={log.position !== undefined}
        isFailed={failure !== null}
      />
    </Panel>
  );
}

function stateText(
  { hasEnded, position, lines }: Log,
  isPaused: boolean,
  isFailed: boolean,
): string {
  const shown = countText(lines.length, 'line');
  if (hasEnded) return `${shown}, ended`;
  if (isPaused) return `${shown}, paused`;
  if (isFailed) return `${shown}, interrupted`;
  return position === undefined ? 'reading' : `${shown}, following`;
}

function foundText(search: string, found: number, nth: number): string {
  if (search === '') return '';
  return nth < 0 ? countText(found, 'line') : `${count(nth + 1)} of ${countText(found, 'line')}`;
}

function LogSearch({
  search,
  found,
  isEmpty,
  onChange,
  onGo,
}: {
  readonly search: string;
  readonly found: string;
  readonly isEmpty: boolean;
  readonly onChange: (search: string) => void;
  readonly onGo: (step: 1 | -1) => void;
}) {
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>): void => {
    if (event.key !== 'Enter' || isEmpty) return;
    event.preventDefault();
    onGo(event.shiftKey ? 1 : -1);
  };
  return (
    <div className={classes['search']} role="search">
      <TextInput
        aria-label="Search this log"
        placeholder="Search this log"
        leftSection={<IconSearch size={14} aria-hidden />}
        value={search}
        onChange={({ currentTarget }) => onChange(currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <span className={classes['found']} role="status">
        {found}
      </span>
      <ActionIcon disabled={isEmpty} aria-label="The match before" onClick={() => onGo(-1)}>
        <IconChevronUp size={15} />
      </ActionIcon>
      <ActionIcon disabled={isEmpty} aria-label="The match after" onClick={() => onGo(1)}>
        <IconChevronDown size={15} />
      </ActionIcon>
    </div>
  );
}

interface LinesProps {
  readonly label: string;
  readonly log: Log;
  readonly search: string;
  readonly chosenId: number | undefined;
  readonly choices: Choices;
  readonly showMore: (() => void) | undefined;
  readonly isRead: boolean;
  readonly isFailed: boolean;
}

/** The lines. Who looks at the end follows it; who has scrolled up is left alone. */
function Lines(props: LinesProps) {
  const { label, log, search, chosenId, choices } = props;
  const box = useRef<HTMLDivElement>(null);
  const [isAtEnd, setAtEnd] = useState(true);
  const toEnd = (): void => {
    if (box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  };
  useLayoutEffect(() => {
    if (isAtEnd) toEnd();
  }, [isAtEnd, log.lines, choices.isTimed, choices.isWrapped]);
  useLayoutEffect(() => {
    const chosen = box.current?.querySelector(`[data-line="${String(chosenId)}"]`);
    chosen?.scrollIntoView({ block: 'nearest' });
  }, [chosenId]);
  return (
    <div className={classes['frame']}>
      <div
        ref={box}
        className={classes['lines']}
        data-wrap={choices.isWrapped || undefined}
        role="log"
        aria-label={label}
        // A screen reader is not to read out each line of a program.
        aria-live="off"
        tabIndex={0}
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) =>
          setAtEnd(scrollHeight - scrollTop - clientHeight < END_PX)
        }
      >
        <Before {...props} />
        {log.lines.map((line) => (
          <Line
            key={line.id}
            line={line}
            search={search}
            isChosen={line.id === chosenId}
            isTimed={choices.isTimed}
          />
        ))}
      </div>
      {isAtEnd ? null : (
        <Button
          className={classes['to-end'] ?? ''}
          variant="default"
          size="compact-xs"
          leftSection={<IconArrowDown size={13} aria-hidden />}
          onClick={toEnd}
        >
          To the end
        </Button>
      )}
    </div>
  );
}

/** What stands before the first line, or in place of all. */
function Before({ log, isRead, isFailed, showMore }: LinesProps) {
  const { before, lines, hasEnded, isThere } = log;
  if (!isRead) return isFailed ? null : <p className={classes['note']}>Reading the log …</p>;
  if (lines.length === 0) {
    return <p className={classes['note']}>{emptyText(hasEnded, isThere)}</p>;
  }
  if (before === 'nothing') return null;
  if (before === 'gone') {
    return (
      <p className={classes['note']}>
        Older output is gone: a drone keeps the newest of each backend.
      </p>
    );
  }
  return (
    <p className={classes['note']}>
      Older lines are not shown.{' '}
      {showMore === undefined ? (
        'The command line prints all that the drone keeps: leasehold backends logs'
      ) : (
        <Button variant="default" size="compact-xs" onClick={showMore}>
          Show the last {count(LINES_MAX)}
        </Button>
      )}
    </p>
  );
}

function emptyText(hasEnded: boolean, isThere: boolean): string {
  if (!hasEnded) return 'It has written nothing yet.';
  return isThere
    ? 'It wrote nothing.'
    : 'Its drone keeps no output of it: it never ran, or it ended too long ago.';
}

const Line = memo(function Line({
  line: { id, at, stream, text, isAfterGap },
  search,
  isChosen,
  isTimed,
}: {
  readonly line: ShownLine;
  readonly search: string;
  readonly isChosen: boolean;
  readonly isTimed: boolean;
}) {
  return (
    <>
      {isAfterGap ? <p className={classes['note']}>Output between these lines is gone.</p> : null}
      <div
        className={classes['line']}
        data-line={id}
        data-stream={stream}
        data-chosen={isChosen || undefined}
      >
        {isTimed ? (
          <time dateTime={at} title={absolute(at)}>
            {clockMs(at)}{' '}
          </time>
        ) : null}
        {stream === 'stderr' ? <span className={classes['stream']}>stderr </span> : null}
        <span className={classes['text']}>
          {partsOf(text, search).map((part, place) =>
            part.isMatch ? (
              <mark key={place}>
                <VisibleText>{part.text}</VisibleText>
              </mark>
            ) : (
              <VisibleText key={place}>{part.text}</VisibleText>
            ),
          )}
        </span>
      </div>
    </>
  );
});

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
function useLog({ backendId, datacenter, tail }: LogSource, isPaused: boolean): LogRead {
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
