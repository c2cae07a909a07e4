import { Tip } from '~/ui/tip.tsx';
import { Mono } from '~/ui/text/text.tsx';
import { BACKEND_LOOKS } from '~/resources/looks.tsx';
import { absolute, clockMs, duration } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { REASON_TEXTS } from '~/resources/backend-end.ts';
import { STATUS_TEXTS, type BackendState } from './backend-texts.ts';
import { stateSteps, type StateStep } from './state-steps.ts';
import classes from './state-timeline.module.css';

/** Every state that a backend was in, from the first on, with how long it was in it. */
export function StateTimeline({ states }: { readonly states: readonly BackendState[] }) {
  const lastAt = states.at(-1)?.at;
  const nowMs = useDatabaseNow() ?? (lastAt === undefined ? 0 : Date.parse(lastAt));
  return (
    <ol className={classes['timeline']}>
      {stateSteps(states, nowMs).map((step) => (
        <Step key={step.state.id} step={step} />
      ))}
    </ol>
  );
}

function Step({ step: { state, durationMs, isPresent } }: { readonly step: StateStep }) {
  const { label, tone, icon: LookIcon } = BACKEND_LOOKS[state.status];
  return (
    <li className={classes['step']} data-tone={tone} data-present={isPresent || undefined}>
      <span className={classes['mark']} aria-hidden>
        <LookIcon size={14} stroke={2} />
      </span>
      <div className={classes['what']}>
        <div className={classes['line']}>
          <strong>{label}</strong>
          <Tip label={<span className="mono">{absolute(state.at)}</span>}>
            <time className="mono" dateTime={state.at} tabIndex={0}>
              {clockMs(state.at)}
            </time>
          </Tip>
          {durationMs === null ? null : (
            <span className={classes['duration']}>for {duration(durationMs)}</span>
          )}
        </div>
        <Details state={state} />
      </div>
    </li>
  );
}

function Details({ state }: { readonly state: BackendState }) {
  const { reason, exitCode, address, detail, status } = state;
  return (
    <div className={classes['details']}>
      {reason === null ? STATUS_TEXTS[status] : `Because ${REASON_TEXTS[reason]}.`}
      {exitCode === null ? null : (
        <>
          {' '}
          Exited, code <Mono>{exitCode}</Mono>.
        </>
      )}
      {address === null ? null : (
        <>
          {' '}
          Address <Mono>{address}</Mono>.
        </>
      )}
      {detail === null ? null : <span className={classes['detail']}>{detail}</span>}
    </div>
  );
}
