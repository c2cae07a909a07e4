import { absolute, clockMs, duration } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { endOf } from '~/resources/backend-end.ts';
import { backendLook } from '~/resources/looks.tsx';
import { Mono, VisibleText } from '~/ui/text.tsx';
import { Tip } from '~/ui/tip.tsx';
import { type BackendState, STATUS_TEXTS } from './backend-texts.ts';
import { type StateStep, stateSteps } from './state-steps.ts';
import classes from './state-timeline.module.css';

/** Every state that a backend was in, from the first on, with how long it was in it. */
export function StateTimeline({ states }: { readonly states: readonly BackendState[] }) {
  const lastAt = states.at(-1)?.at;
  const nowMs = useDatabaseNow() ?? (lastAt === undefined ? 0 : Date.parse(lastAt));
  return (
    <ol className={classes['timeline']}>
      {stateSteps(states, nowMs).map((step) => (
        <Step key={step.state.id} step={step} address={addressOf(states)} />
      ))}
    </ol>
  );
}

/** Known once it was ready. */
function addressOf(states: readonly BackendState[]): string | null {
  return states.find(({ address }) => address !== null)?.address ?? null;
}

function Step({
  step: { state, durationMs, isPresent },
  address,
}: {
  readonly step: StateStep;
  readonly address: string | null;
}) {
  const { label, tone, icon: LookIcon } = backendLook({ ...state, address });
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
  const { address, detail, status } = state;
  const end = endOf(state);
  return (
    <div className={classes['details']}>
      {end === undefined ? STATUS_TEXTS[status] : `Because ${end}.`}
      {address === null ? null : (
        <>
          {' '}
          Address <Mono>{address}</Mono>.
        </>
      )}
      {detail === null ? null : (
        <span className={classes['detail']}>
          <VisibleText>{detail}</VisibleText>
        </span>
      )}
    </div>
  );
}
