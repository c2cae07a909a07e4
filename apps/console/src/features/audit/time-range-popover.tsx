import { Button, Group, Popover, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { type Opener, OpenerAnchor, useOpenedOnceThere } from '~/ui/lazy.tsx';
import { ANY_TIME, fromInput, QUICK_RANGES, type TimeRange, toInput } from './time-range.ts';

/** What opens below the button of a `TimeRangeFilter`, which loads it when it is needed. */
export function TimeRangePopover({
  opener,
  value,
  onChange,
}: {
  readonly opener: Opener;
  readonly value: TimeRange;
  readonly onChange: (value: TimeRange) => void;
}) {
  const isOpen = useOpenedOnceThere(opener);
  return (
    <Popover
      id={opener.props.id}
      opened={isOpen}
      onChange={opener.setOpen}
      position="bottom-start"
      trapFocus
      returnFocus
    >
      <Popover.Target>
        <OpenerAnchor opener={opener} />
      </Popover.Target>
      <Popover.Dropdown aria-label="Time shown">
        {isOpen ? (
          <TimeRangeForm
            value={value}
            onChoose={(next) => {
              onChange(next);
              opener.setOpen(false);
            }}
          />
        ) : null}
      </Popover.Dropdown>
    </Popover>
  );
}

/** One of the usual ranges, or from when to when. */
function TimeRangeForm({
  value,
  onChoose,
}: {
  readonly value: TimeRange;
  readonly onChoose: (value: TimeRange) => void;
}) {
  const [from, setFrom] = useState(toInput(value.from));
  const [to, setTo] = useState(toInput(value.to));
  const isBackwards = from !== '' && to !== '' && from >= to;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (!isBackwards) onChoose({ range: null, from: fromInput(from), to: fromInput(to) });
      }}
    >
      <Stack gap="xs">
        <Group gap={4}>
          {QUICK_RANGES.map(({ range, label }) => (
            <Button
              key={range}
              size="compact-xs"
              variant={value.range === range ? 'light' : 'default'}
              aria-pressed={value.range === range}
              onClick={() => onChoose({ ...ANY_TIME, range })}
            >
              {label}
            </Button>
          ))}
        </Group>
        <TextInput
          label="From (UTC)"
          type="datetime-local"
          value={from}
          onChange={(event) => setFrom(event.currentTarget.value)}
        />
        <TextInput
          label="To (UTC)"
          description="Not included itself."
          type="datetime-local"
          value={to}
          error={isBackwards ? 'Must be later than the start.' : undefined}
          onChange={(event) => setTo(event.currentTarget.value)}
        />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={() => onChoose(ANY_TIME)}>
            Any time
          </Button>
          <Button type="submit" disabled={isBackwards}>
            Show
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
