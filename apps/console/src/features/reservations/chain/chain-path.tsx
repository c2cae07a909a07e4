import { datacenterOf } from '@leasehold/keys-core';
import { IconArrowRight } from '@tabler/icons-react';
import classes from '../reservations.module.css';

/** Of a longer path, only the first and the last are shown. */
const SHOWN_MAX = 4;

/** `dc1 → dc2`: the datacenters that a key passed through, up to where this reservation led. */
export function ChainPath({
  chain,
  movedTo,
}: {
  readonly chain: readonly string[];
  readonly movedTo: string | null;
}) {
  const all = [...chain, ...(movedTo === null ? [] : [movedTo])].map(datacenterOf);
  const isLong = all.length > SHOWN_MAX;
  const shown = isLong ? [...all.slice(0, 1), '…', ...all.slice(-2)] : all;
  const names = all.join(', then ');
  if (all.length === 1) return <span className="dimmed">not moved</span>;
  return (
    <span className={classes['path']} title={all.join(' → ')}>
      <span className="visually-hidden">{names}</span>
      {shown.map((name, index) => (
        <span key={index} className={classes['hop']} aria-hidden>
          {index === 0 ? null : <IconArrowRight size={12} />}
          <span className="mono" data-last={index === shown.length - 1 || undefined}>
            {name}
          </span>
        </span>
      ))}
    </span>
  );
}
