import { Button } from '@mantine/core';
import { IconChevronDown } from '@tabler/icons-react';
import dynamic from 'next/dynamic';
import { useOpener } from '~/ui/lazy.tsx';
import { isAnyTime, type TimeRange, timeRangeText } from './time-range.ts';

const TimeRangePopover = dynamic(
  () => import('./time-range-popover.tsx').then((module) => module.TimeRangePopover),
  { ssr: false },
);

/** The time that a list is about, as a button; times are UTC, as everywhere on the page. */
export function TimeRangeFilter({
  value,
  onChange,
}: {
  readonly value: TimeRange;
  readonly onChange: (value: TimeRange) => void;
}) {
  const opener = useOpener('dialog');
  return (
    <>
      <Button
        {...opener.props}
        variant={isAnyTime(value) ? 'default' : 'light'}
        rightSection={<IconChevronDown size={13} />}
      >
        {timeRangeText(value)}
      </Button>
      {opener.isWanted ? (
        <TimeRangePopover opener={opener} value={value} onChange={onChange} />
      ) : null}
    </>
  );
}
