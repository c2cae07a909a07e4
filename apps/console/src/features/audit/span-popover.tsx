import { Popover, Button, Group, Stack, TextInput } from '@mantine/core';
import { OpenerAnchor, useOpenedOnceThere, type Opener } from '~/ui/menus/use-opener.ts';
import { type Span, fromInput, toInput } from './audit-search.ts';
import { useState } from 'react';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';

/** What opens below the button of a `SpanFilter`, which loads it when it is needed. */
export function SpanPopover({
  opener,
  span,
  onChange,
}: {
  readonly opener: Opener;
  readonly span: Span;
  readonly onChange: (span: Span) => void;
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
          <SpanForm
            span={span}
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

const HOUR_MS = 3_600_000;
const PRESETS = [
  { label: 'Last hour', ms: HOUR_MS },
  { label: 'Last 24 hours', ms: 24 * HOUR_MS },
  { label: 'Last 7 days', ms: 7 * 24 * HOUR_MS },
] as const;

/** From when, to when; or one of the usual spans. */
function SpanForm({
  span,
  onChoose,
}: {
  readonly span: Span;
  readonly onChoose: (span: Span) => void;
}) {
  const [from, setFrom] = useState(toInput(span.from));
  const [to, setTo] = useState(toInput(span.to));
  const nowMs = useDatabaseNow();
  const isBackwards = from !== '' && to !== '' && from >= to;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (!isBackwards) onChoose({ from: fromInput(from), to: fromInput(to) });
      }}
    >
      <Stack gap="xs">
        <Group gap={4}>
          {PRESETS.map(({ label, ms }) => (
            <Button
              key={label}
              size="compact-xs"
              variant="default"
              disabled={nowMs === null}
              onClick={() => {
                if (nowMs === null) return;
                onChoose({ from: new Date(nowMs - ms).toISOString(), to: null });
              }}
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
          description="Not itself included."
          type="datetime-local"
          value={to}
          error={isBackwards ? 'Must be later than the beginning.' : undefined}
          onChange={(event) => setTo(event.currentTarget.value)}
        />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={() => onChoose({ from: null, to: null })}>
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
