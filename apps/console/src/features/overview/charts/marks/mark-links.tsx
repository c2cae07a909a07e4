import { absolute, counted } from '~/lib/format.ts';
import { actText } from '~/resources/audit.ts';
import { Link, VisibleText } from '~/ui/text.tsx';
import { Tip } from '~/ui/tip.tsx';
import type { ChartArea } from '../draw-chart.ts';
import type { ActMark } from './chart-marks.ts';
import classes from '../charts.module.css';

/** How many acts of one mark are written out. */
const TOLD_MAX = 3;

/** Operator actions, above the lines: each mark says it, and links to it in the audit. */
export function MarkLinks({
  marks,
  area,
  hasTabStops,
}: {
  readonly marks: readonly ActMark[];
  readonly area: ChartArea;
  readonly hasTabStops: boolean;
}) {
  if (marks.length === 0) return null;
  const { leftPx, widthPx, fromMs, toMs } = area;
  return (
    <ul className={classes['marks']} aria-label="Operator actions">
      {marks.map(({ acts, atMs, href }) => {
        const left = leftPx + ((atMs - fromMs) / (toMs - fromMs)) * widthPx;
        const told = acts.slice(0, TOLD_MAX).map((act) => actText(act));
        const more = acts.length - told.length;
        if (more > 0) told.push(`and ${counted(more, 'other')}`);
        return (
          <li key={`${String(atMs)} ${String(acts.length)}`} style={{ left }}>
            <Tip isDescribed label={<MarkTip told={told} acts={acts} />}>
              <Link href={href} aria-label={told.join('; ')} tabIndex={hasTabStops ? 0 : -1} />
            </Tip>
          </li>
        );
      })}
    </ul>
  );
}

function MarkTip({
  told,
  acts,
}: {
  readonly told: readonly string[];
  readonly acts: ActMark['acts'];
}) {
  const [only] = acts;
  return (
    <>
      {told.map((text, index) => (
        <div key={index}>{text}</div>
      ))}
      {only === undefined ? null : <div className="mono">{absolute(only.at)}</div>}
      {acts.length === 1 && only?.reason != null ? (
        <div>
          <VisibleText>{`“${only.reason}”`}</VisibleText>
        </div>
      ) : null}
    </>
  );
}
